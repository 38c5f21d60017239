"""The paper's own search (DDRS, Alfarra et al. 2022, algorithm 1): gradient ascent on the soft radius."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK
from smoothcert.engine.sigma.base import CHOOSING, SEARCHES, RunAll, WithinSpan, stream_of
from smoothcert.noise import Noise
from smoothcert.noise.ascent import ascend, searchable, unit_draws
from smoothcert.noise.base import check_positive, per_row

DECIMALS = 7
"""Of what is found: rounding of scores, which differs with who else is in a call, then hardly ever shows."""
ROUNDING, BEND = 1e-6, 0.01
"""Relative: what rounding of scores does everywhere; and where it decides on which side of a clamp a score falls."""


@SEARCHES.add
@dataclass(frozen=True)
class DDRS(WithinSpan):
    """K = `steps` of sigma <- sigma + lr dR/dsigma, R the soft radius of n = `draws` fresh draws. Needs gradients.

    Departures from the paper: the class is that of equation 3, the answer at sigma_0, and not whatever the draws of a
    step answer (algorithm 1; the same where they all answer it); sigma is kept in its span, else it may walk to 0 or
    away; and the end is rounded to 7 decimals. Paper: n = 1 (8 for MACER), K from 100 to 900, lr 1e-4.

    Many inputs go through the model at once, and scores may be rounded otherwise in other company. Every input has a
    strength of its own, and so tables of its own where noise is drawn on a grid: some tenths of a second each.
    """

    name: ClassVar[str] = "ddrs"
    steps: int = 400
    draws: int = 1
    lr: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("lr of ddrs", self.lr)

    @property
    def evaluations(self) -> int:
        """Forward and back, as the paper counts them."""
        return CHOOSING + 2 * self.steps * self.draws

    def can_end(self, found: float, start: float) -> bool:
        """Within its span, up to rounding."""
        return start / self.span * (1 - ROUNDING) <= found <= start * self.span * (1 + ROUNDING)

    def same(self, one: float, other: float) -> bool:
        """Equal but for the last decimals."""
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=10**-DECIMALS)

    def agrees(self, one: float, other: float) -> bool:
        """As near as steps to one side of a clamp and to the other can leave them."""
        return math.isclose(one, other, rel_tol=BEND)

    def strengths(
        self, run_all: RunAll, model: Model, x: Tensor, noise: Noise, *, seed: int, threads: int | None = None
    ) -> list[float]:
        """In chunks of inputs, because one draw at a time would leave the machine idle."""
        bound, size = searchable(noise.for_inputs(x)), max(1, BLOCK // self.draws)
        before, found = torch.get_num_threads(), list[float]()
        torch.set_num_threads(threads or before)
        try:
            with torch.autocast(x.device.type, enabled=False):
                for part in torch.split(x, size):
                    found += self._chunk(model, part, bound, seed)
        finally:
            torch.set_num_threads(before)
        return found

    def _chunk(self, model: Model, x: Tensor, noise: Noise, seed: int) -> list[float]:
        streams = [stream_of(seed, one) for one in x]

        def units(draws: int) -> Tensor:
            each = [unit_draws(noise, one, draws, stream) for one, stream in zip(x, streams, strict=True)]
            return torch.stack(each)  # (B, draws, ...)

        low, high = noise.strength / self.span, noise.strength * self.span
        sigma = torch.full((len(x),), noise.strength, dtype=torch.float64, device=x.device)
        with torch.no_grad():
            first = [model(x + per_row(sigma, x) * unit).softmax(dim=-1) for unit in units(CHOOSING).unbind(dim=1)]
        label = torch.stack(first).mean(dim=0).argmax(dim=1)
        for _ in range(self.steps):
            sigma = ascend(model, noise, x, sigma, units(self.draws), lr=self.lr, label=label).clamp(low, high)
        return [round(one, DECIMALS) for one in sigma.tolist()]
