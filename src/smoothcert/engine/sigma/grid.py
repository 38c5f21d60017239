"""The paper's baseline (DDRS, Alfarra et al. 2022, appendix B): the best soft radius of equally spaced strengths."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from smoothcert.core.described import IF_ANY
from smoothcert.core.model import Model
from smoothcert.engine.sigma.base import CHOOSING, SEARCHES, OneByOne, check_span, scores_at, stream_of
from smoothcert.noise import Noise
from smoothcert.noise.ascent import soft_radii, unit_draws

MOST = 1.0
"""Strengths reach from 0 to here, whatever sigma_0 is, where no span is given."""


@SEARCHES.add
@dataclass(frozen=True)
class Grid(OneByOne):
    """`steps` equally spaced strengths up to 1, each with `draws` draws of its own (equation 4).

    Paper: 200 evaluations in all, so 200 strengths of one draw, 100 of 2, 50 of 4 or 20 of 10. It has 0 among them,
    whose radius is 0 and whose noise is none; here the least is 1 / steps. With a `span` (ours) they reach from
    sigma_0 / span to sigma_0 * span instead: for networks of more noise than 1, or noise whose strength is no sigma.
    """

    name: ClassVar[str] = "grid"
    steps: int = 200
    draws: int = 1
    span: float | None = field(default=None, kw_only=True, metadata={"described": IF_ANY})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span is not None:
            check_span(self.name, self.span)

    @property
    def evaluations(self) -> int:
        """All strengths, and the class."""
        return CHOOSING + self.steps * self.draws

    def can_end(self, found: float, start: float) -> bool:
        """At one of the strengths that are tried."""
        return found in self._tried(start)

    def _tried(self, start: float) -> list[float]:
        if self.span is None:
            return [MOST * k / self.steps for k in range(1, self.steps + 1)]
        if self.steps == 1:
            return [start]
        least, most = start / self.span, start * self.span
        return [least + (most - least) * k / (self.steps - 1) for k in range(self.steps)]

    @torch.inference_mode()
    def find(self, model: Model, x: Tensor, noise: Noise, seed: int) -> float:
        """The strength with the largest soft radius."""
        stream = stream_of(seed, x)
        first = torch.from_numpy(scores_at(model, x, unit_draws(noise, x, CHOOSING, stream), noise.strength))
        label = first.softmax(dim=1).mean(dim=0).argmax().expand(self.steps)
        tried = torch.tensor(self._tried(noise.strength), dtype=torch.float64)
        units = unit_draws(noise, x, self.steps * self.draws, stream)
        scores = torch.from_numpy(scores_at(model, x, units, tried.repeat_interleave(self.draws)))
        radii = soft_radii(noise, scores.view(self.steps, self.draws, -1), tried, label)
        return float(tried[int(radii.argmax())])
