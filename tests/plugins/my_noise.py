"""Logistic noise: l1 radii with tails like Laplace's, and a smooth top.

The density is e^-t / (s (1 + e^-t)^2) with t = x / s, and the slope of its logarithm is -tanh(t / 2) / s, between -1/s
and 1/s. A shift by delta therefore changes any probability by a factor of at most exp(|delta|_1 / s), which is all
that the argument for Laplace noise needs (Lecuyer et al. 2019): with r = |delta|_1 / s, p_A keeps at least
max(1 - e^r (1 - p_A), e^-r p_A), and p_B grows to at most e^r p_B.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

import smoothcert as sc
from smoothcert.noise import Noise
from smoothcert.noise.base import check_positive, per_row
from smoothcert.stats.rounding import check_radius, rounded_down, rounded_up


@sc.register
@dataclass(frozen=True)
class Logistic(Noise):
    """Independent logistic coordinates. R = spread max(-log(1 - p_A + p_B), log(p_A / p_B) / 2)."""

    name: ClassVar[str] = "logistic"
    strength_name: ClassVar[str] = "spread"
    spread: float

    def __post_init__(self) -> None:
        check_positive("spread", self.spread)

    @property
    def norm(self) -> str:
        """Manhattan distance."""
        return "l1"

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """x + spread * logit(u)."""
        u = torch.rand(x.shape, generator=generator, dtype=torch.float64, device=x.device)
        logits = u.clamp_min_(2.0**-60).logit().to(x.dtype)  # finite: u is below 1
        return logits.mul_(self.spread if strength is None else per_row(strength, x)).add_(x)

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """Rounded down; the second bound is never the better one for p_upper = 1 - p_lower."""
        q = 1 - p_lower if p_upper is None else p_upper
        if q >= p_lower:
            return 0.0
        ratio = math.log1p((p_lower - q) / q) / 2 if q > 0 else 0.0
        gap = max(q - p_lower, -1 + 2.0**-53)
        return rounded_down(self.strength * max(-math.log1p(gap), ratio))

    def required_p(self, radius: float) -> float:
        """1 - exp(-radius / spread) / 2, rounded up."""
        check_radius(radius)
        return rounded_up(1 - math.exp(-radius / self.strength) / 2)
