"""A noise from outside the package, as small as one can be: what a user would write and load as a plug-in."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from smoothcert.noise.base import NOISES, Noise, per_row
from smoothcert.stats.rounding import check_radius, rounded_down, rounded_up


@NOISES.add
@dataclass(frozen=True)
class Logistic(Noise):
    """Independent logistic coordinates. Their log-density has a slope of at most 1/spread, as that of Laplace noise.

    So a shift by delta changes any probability by a factor of at most e^(||delta||_1 / spread).
    """

    name: ClassVar[str] = "logistic"
    strength_name: ClassVar[str] = "spread"
    spread: float

    @property
    def norm(self) -> str:
        return "l1"

    def draw(self, x: torch.Tensor, generator: torch.Generator, strength: torch.Tensor | None = None) -> torch.Tensor:
        u = torch.rand(x.shape, generator=generator, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
        return x + torch.logit(u).to(x) * (self.spread if strength is None else per_row(strength, x))

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        gap = 2 * (1 - p_lower) if p_upper is None else 1 - p_lower + p_upper
        return 0.0 if gap >= 1 else rounded_down(-self.strength * math.log(math.nextafter(gap, 1)))

    def required_p(self, radius: float) -> float:
        check_radius(radius)
        return rounded_up(1 - math.exp(-radius / self.strength) / 2)
