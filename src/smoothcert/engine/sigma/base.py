"""The contract of a search for the strength of an input's noise, and what searches share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from smoothcert.core.described import Described
from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK, generator, input_id
from smoothcert.core.registry import Registry
from smoothcert.noise import Noise
from smoothcert.noise.ascent import searchable
from smoothcert.noise.base import per_row
from smoothcert.procedures.conversation import check_draws

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

RunAll = Callable[[Sequence["FindStrength"]], list[float]]
"""Does works somewhere, side by side, and returns what they come to in their order."""

AT_ONCE = 128  # inputs that are searched before the first of them is certified
CHOOSING = 32
"""Draws at the first strength that choose the class, for methods that look at fewer at a time."""


SEARCHES: Registry[type[SigmaSearch]] = Registry("search for sigma")


@dataclass(frozen=True)
class SigmaSearch(Described, ABC):
    """How the strength of an input's noise is found, from the strength of the noise that all are given, sigma_0.

    The class is fixed to the answer at sigma_0. The result is a function of (seed, input, model, noise, settings).
    Draws that choose are of a purpose of their own ("sigma"): they never bound.
    """

    registry: ClassVar[Registry[Any]] = SEARCHES
    steps: int
    draws: int

    def __post_init__(self) -> None:
        check_draws(f"steps of {self.name}", self.steps)
        check_draws(f"draws of {self.name}", self.draws)

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Of the model, at most, per input; a gradient counts as one more."""

    @abstractmethod
    def strengths(
        self, run_all: RunAll, model: Model, x: Tensor, noise: Noise, *, seed: int, threads: int | None = None
    ) -> list[float]:
        """One per input x (B, ...), which is where the model is.

        `run_all` does works with runners of the model; `model` itself is what gradients go through, with `threads`
        threads of torch (None: as many as there are).
        """

    def noises(self, run_all: RunAll, compiled: Compiled, batch: Tensor, noise: Noise, *, seed: int) -> Iterator[Noise]:
        """The noise of each input of a batch (B, ...) anywhere, as they are wanted: some inputs at a time."""
        for x in torch.split(batch, AT_ONCE):
            here, threads = x.to(compiled.device), compiled.threads
            for found in self.strengths(run_all, compiled.model, here, noise, seed=seed, threads=threads):
                yield noise.with_strength(found)

    def can_end(self, found: float, start: float) -> bool:
        """Whether a search that starts at sigma_0 = `start` can end at `found`, whatever the model."""
        return found > 0

    def same(self, one: float, other: float) -> bool:
        """Whether two strengths are one, but for what rounding of scores does to every input."""
        return one == other

    def agrees(self, one: float, other: float) -> bool:
        """Whether two strengths can have been found for one input, where rounding of scores may do this to a few."""
        return self.same(one, other)


@dataclass(frozen=True)
class WithinSpan(SigmaSearch):
    """A search that stays between sigma_0 / span and sigma_0 * span: else sigma may walk to 0 or away."""

    span: float = field(default=4.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_span(self.name, self.span)


def check_span(name: str, span: float) -> None:
    """Refuse a span that is none."""
    if isinstance(span, bool) or not isinstance(span, int | float) or not 1 < span < math.inf:
        raise InputError(f"span of {name} must be a number above 1, got {span}")


@dataclass(frozen=True)
class OneByOne(SigmaSearch):
    """A search with draws of one input alone in a call: nobody feels who else is there."""

    def strengths(
        self, run_all: RunAll, model: Model, x: Tensor, noise: Noise, *, seed: int, threads: int | None = None
    ) -> list[float]:
        """Of each input by `find`, side by side."""
        bound = searchable(noise.for_inputs(x))
        return run_all([FindStrength(self, one.clone(), bound, seed) for one in x])

    @abstractmethod
    def find(self, model: Model, x: Tensor, noise: Noise, seed: int) -> float:
        """The strength of one input x (...), given the noise around it at sigma_0."""


@dataclass(frozen=True, eq=False)
class FindStrength:
    """Work for a pool: the search for the strength of one input."""

    search: OneByOne
    x: Tensor
    noise: Noise
    seed: int

    def run(self, compiled: Compiled, runner: Model) -> float:
        """By a worker."""
        return self.search.find(runner, self.x.to(compiled.device), self.noise, self.seed)


def stream_of(seed: int, x: Tensor) -> torch.Generator:
    """The draws that choose the strength of an input x (...)."""
    return generator(seed, input_id(x), "sigma", 0, x.device)


def scores_at(model: Model, x: Tensor, units: Tensor, strengths: Tensor | float) -> np.ndarray[Any, Any]:
    """Scores (m, C), in float64, of x + strength * unit, for units (m, ...) of one input and a strength or (m,)."""
    each = torch.as_tensor(strengths, device=x.device).expand(len(units))
    parts = torch.split(x + per_row(each, units) * units, BLOCK)
    with torch.autocast(x.device.type, enabled=False):  # the caller's would reach only some threads
        found: np.ndarray[Any, Any] = torch.cat([model(part) for part in parts]).double().cpu().numpy()
    if not np.isfinite(found).all():
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    return found
