"""What `Smoothed` is given, refused at the door where it cannot work."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.engine.pools import Pool
from smoothcert.engine.sigma import SigmaSearch
from smoothcert.engine.weights import WeightSearch, refuse_without_weights
from smoothcert.memory.protocol import RegionMemory
from smoothcert.noise import Noise
from smoothcert.noise.ascent import searchable
from smoothcert.procedures import Procedure


def check_arguments(
    model: Model,
    num_classes: int,
    noise: Noise,
    *,
    batch_size: int | None,
    workers: int | None,
    search: SigmaSearch | None,
    weights: WeightSearch | None,
    pool: Pool | None,
) -> None:
    """Refuse arguments of `Smoothed` that are not what they should be, or do not go together."""
    if not callable(model):
        raise InputError(f"model must be callable, got {type(model).__name__}; wrap scikit-learn in SklearnClassifier")
    if num_classes < 2:
        raise InputError(f"num_classes must be at least 2, got {num_classes}")
    if not isinstance(noise, Noise):
        raise InputError(f"noise must be a noise such as Gaussian(sigma=0.25), got {noise!r}")
    if search is not None:
        searchable(noise)
    if weights is not None:
        refuse_without_weights(model)
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    if pool is not None and workers is not None:
        raise InputError("workers and pool say the same: give pool=Threads(workers) alone")
    if pool is not None and not isinstance(pool, Pool):
        raise InputError(f"pool must be a pool such as Threads(2), got {pool!r}")


def check_own(
    inputs: int,
    noises: Sequence[Noise] | None,
    weights: Sequence[Sequence[float]] | None,
    search: WeightSearch | None,
    labels: Sequence[int],
) -> None:
    """Refuse noises, weights or labels that are not one per input, and weights of a classifier that has none so."""
    if len(labels) not in (0, inputs):
        raise InputError(f"labels must be one per input, got {len(labels)} for {inputs} inputs")
    if noises is not None and len(noises) != inputs:
        raise InputError(f"noises must be one per input, got {len(noises)} for {inputs} inputs")
    if weights is not None and (search is None or len(weights) != inputs):
        raise InputError(
            f"weights must be one per input of a classifier that finds them, got {len(weights)} for {inputs}"
        )


def refuse_labels(procedure: Procedure, memory: RegionMemory | None) -> None:
    """Refuse a procedure that looks at labels before a memory: what it answers later must not depend on them."""
    if procedure.for_test_data and memory is not None:
        raise InputError(
            f"procedure {procedure.name} looks at labels, and what a memory answers must not; leave one of them out"
        )
