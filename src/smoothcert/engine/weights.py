"""Ensemble weights of each input's own: how they are found (EsbRS, Liu et al. 2023, algorithm 2).

Other weights are another classifier, so certificates then have the scope "this input's own classifier", or go through a
memory. Weights that are the same at every input need none (`minimum_variance_weights`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from smoothcert.core.described import Described
from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.registry import Registry
from smoothcert.models.ensembles import (
    Estimation,
    SoftmaxVoting,
    margin_ratio_weights_per_input,
    minimum_variance_weights_per_input,
)
from smoothcert.noise import Noise

SAME, NEAR = 1e-4, 1e-2
"""By how much a weight may differ where scores are rounded otherwise: at every input, and at a few."""

WEIGHT_SEARCHES: Registry[type[WeightSearch]] = Registry("search for weights")


@dataclass(frozen=True)
class WeightSearch(Described, ABC):
    """How the weights of an ensemble are found at an input: a function of (seed, input, members, noise, settings).

    Draws that choose are of a purpose of their own: they never bound.
    """

    registry: ClassVar[Registry[Any]] = WEIGHT_SEARCHES

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Of each member, per input."""

    @abstractmethod
    def find(self, members: Sequence[nn.Module], x: Tensor, noise: Noise, seed: int) -> tuple[float, ...]:
        """The weights at one input x (...), which sum to one. Members may be changed meanwhile, and are put back."""

    def weights(self, members: Sequence[nn.Module], x: Tensor, noise: Noise, seed: int, threads: int) -> list[float]:
        """The same with so many threads of torch, and without the caller's autocast."""
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            with torch.autocast(x.device.type, enabled=False):
                return list(self.find(members, x, noise, seed))
        finally:
            torch.set_num_threads(before)


@WEIGHT_SEARCHES.add
@dataclass(frozen=True)
class LeastVariance(WeightSearch):
    """The paper's: least variance of the margins over noise and perturbed copies of members (`Estimation`).

    Args:
        draws: n, noisy copies of the input.
        copies: m, perturbed copies of each member, which stand for other training seeds.
        share: t, the probability that a parameter is perturbed.
        spread: standard deviation of the perturbation.
    """

    name: ClassVar[str] = "variance"
    draws: int = Estimation.draws
    copies: int = Estimation.copies
    share: float = Estimation.share
    spread: float = Estimation.spread

    def __post_init__(self) -> None:
        self._estimation  # noqa: B018 (refuses what cannot be)

    @property
    def evaluations(self) -> int:
        """All draws through all copies."""
        return self.draws * self.copies

    @property
    def _estimation(self) -> Estimation:
        return Estimation(self.draws, self.copies, self.share, self.spread)

    def find(self, members: Sequence[nn.Module], x: Tensor, noise: Noise, seed: int) -> tuple[float, ...]:
        """By algorithm 2."""
        (found,) = minimum_variance_weights_per_input(
            members, x[None], noise=noise, estimation=self._estimation, seed=seed
        )
        return found.weights


@WEIGHT_SEARCHES.add
@dataclass(frozen=True)
class MarginRatio(WeightSearch):
    """Ours: the largest mean over standard deviation of the margin over `draws` draws of the noise alone."""

    name: ClassVar[str] = "ratio"
    draws: int = 100

    def __post_init__(self) -> None:
        if self.draws < 2:
            raise InputError(f"draws of ratio must be at least 2, got {self.draws}")

    @property
    def evaluations(self) -> int:
        """The draws."""
        return self.draws

    def find(self, members: Sequence[nn.Module], x: Tensor, noise: Noise, seed: int) -> tuple[float, ...]:
        """From one set of draws, the same for all members."""
        (found,) = margin_ratio_weights_per_input(members, x[None], noise=noise, draws=self.draws, seed=seed)
        return found.weights


def weight_search(method: str = "variance", **options: Any) -> WeightSearch:
    """The search of that name; an option that is None keeps its default, and one that it does not have is refused."""
    kind = WEIGHT_SEARCHES.find(method)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - {f.name for f in fields(kind)}:
        raise InputError(f"weights by {method} have no {name}; leave it out")
    return kind(**given)


def refuse_without_weights(model: Model) -> None:
    """Refuse a model whose members have no weights that could be each input's own."""
    if not isinstance(model, SoftmaxVoting):
        raise InputError(
            f"weights per input are of members whose probabilities are averaged, and the model is "
            f"{getattr(model, 'name', type(model).__name__)}; make an ensemble with the aggregation softmax-voting"
        )


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference between two weights of a member; 2 where they are not of as many."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) if len(one) == len(other) else 2.0
