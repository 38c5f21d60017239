"""The smoothed classifier's answers to inputs from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smoothcert.audit.memory import refuse_other_memory
from smoothcert.audit.rebuild import other_circumstances, refuse_soft
from smoothcert.core.errors import InputError
from smoothcert.datasets import read_inputs
from smoothcert.engine import Pool, Smoothed
from smoothcert.memory import Memory
from smoothcert.noise import Noise
from smoothcert.procedures import Predict, Prediction
from smoothcert.runs import Run
from smoothcert.workflows.choices import NoiseChoice, PoolChoice, resolve_noise, resolve_pool
from smoothcert.workflows.memory import opened_memory
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.of_run import rebuilt, run_calibration, run_model
from smoothcert.workflows.sources import Classifier, ModelSource, calibration_inputs, open_model


@dataclass(frozen=True)
class Answer:
    """What is answered to one input."""

    source: Path
    class_name: str | None  # None: it abstains
    prediction: Prediction


@dataclass(frozen=True)
class Running:
    """How the model is run where no run settles it; see `Smoothed`."""

    noise: Noise | NoiseChoice = field(default_factory=NoiseChoice)
    backend: str = "eager"
    batch_size: int | None = None


def predict(
    model: ModelSource,
    inputs: Sequence[str | Path],
    *,
    run: Run | str | Path | None = None,
    running: Running | None = None,
    procedure: Predict | None = None,
    seed: int | None = None,
    memory: Memory | str | Path | None = None,
    calibration: Any = None,
    device: str | None = None,
    workers: int | None = None,
    pool: Pool | PoolChoice | None = None,
    data_root: Path | None = None,
    observer: Observer = SILENT,
) -> list[Answer]:
    """Answer inputs of images and .npy files with the smoothed classifier, or abstain.

    Args:
        model: a model whose file says what it takes: a checkpoint or an ensemble.
        inputs: files; an .npy file may hold several inputs.
        run: answer as the classifier that it certified; another model is refused.
        running: noise and backend, where no run settles them.
        procedure: default `Predict()`.
        seed: of all draws. Default: that of the run, else 0.
        memory: inside of its regions the memory answers.
        calibration, device, workers, pool, data_root, observer: as of `certify`.
    """
    opened = None if run is None else run if isinstance(run, Run) else Run.open(Path(run))
    if opened is not None and running is not None:
        raise InputError(f"noise and backend are settled by the run {opened.path}; leave them out")
    if opened is not None and opened.config.sigma_search is not None and seed is not None:
        raise InputError(
            f"--seed does not go with {opened.path}, whose seed decides the sigma of each input; leave it out"
        )
    where = resolve_pool(pool)
    with opened_memory(memory, there=True) as remembered:
        classifier = (
            open_model(model, device=device, observer=observer)
            if opened is None
            else run_model(opened, model, device=device, observer=observer)
        )
        shape = classifier.input_shape
        if shape is None:
            raise InputError("predict needs a model whose file says which inputs it takes; call Smoothed.predict")
        batches = [(Path(path), *_read(Path(path), shape)) for path in inputs]
        if opened is not None:
            calibrating = run_calibration(opened, calibration, None, data_root)
            smoothed = _certified(opened, classifier, seed, workers, where, calibrating, remembered, observer)
        else:
            eight_bit = all(is_8_bit for _, _, is_8_bit in batches)
            how = running or Running()
            smoothed = Smoothed(
                classifier.model,
                num_classes=classifier.num_classes,
                noise=resolve_noise(how.noise, classifier.details, eight_bit=eight_bit),
                seed=seed or 0,
                batch_size=how.batch_size,
                workers=workers,
                pool=where,
                backend=how.backend,
                calibration=calibration_inputs(how.backend, calibration, None, data_root)[0],
                memory=remembered,
                input_range=(0, 1),
                input_shape=shape,
            )
        sources = [path for path, batch, _ in batches for _ in batch]
        predictions = smoothed.predict(torch.cat([batch for _, batch, _ in batches]), procedure or Predict())
    names = classifier.class_names
    return [
        Answer(source, None if answer.abstained else names[answer.label], answer)
        for source, answer in zip(sources, predictions, strict=True)
    ]


def _read(path: Path, shape: tuple[int, ...]) -> tuple[Tensor, bool]:
    """Inputs of a file, (B, *shape), and whether they were 8-bit."""
    try:
        batch, eight_bit = read_inputs(path, shape)
    except InputError as error:
        raise InputError(f"--input {error}") from None
    return torch.from_numpy(batch), eight_bit


def _certified(
    run: Run,
    classifier: Classifier,
    seed: int | None,
    workers: int | None,
    pool: Pool | None,
    calibration: Tensor | None,
    memory: Memory | None,
    observer: Observer,
) -> Smoothed:
    """The smoothed classifier of the run; whatever is run otherwise is said."""
    refuse_soft(run, "predict")
    refuse_other_memory(run, memory)
    smoothed = rebuilt(
        run,
        classifier,
        seed=seed,
        workers=workers,
        pool=pool,
        calibration=calibration,
        memory=memory,
        input_range=(0, 1),
    )
    if smoothed.search is not None and memory is None:
        observer.warned(
            "the sigma of each input is its own, so its certificate claims nothing about the answers to its "
            "neighbours; certify with --memory"
        )
    for what in other_circumstances(run, smoothed):
        observer.warned(f"the model is not run as it was certified: {what}")
    return smoothed
