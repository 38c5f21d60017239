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

SAFETY = 2.0**-46  # far above the rounding of the formulas, relative


@sc.register
@dataclass(frozen=True)
class Logistic(Noise):
    """Independent logistic coordinates. R = scale max(-log(1 - p_A + p_B), log(p_A / p_B) / 2)."""

    name: ClassVar[str] = "logistic"
    strength_name: ClassVar[str] = "scale"
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise sc.InputError(f"scale must be positive and finite, got {self.scale}")

    @property
    def norm(self) -> str:
        """Manhattan distance."""
        return "l1"

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """x + scale * logit(u)."""
        u = torch.rand(x.shape, generator=generator, dtype=torch.float64, device=x.device)
        logits = u.clamp_min_(2.0**-60).logit().to(x.dtype)  # finite: u is below 1
        each = self.scale if strength is None else strength.to(x).view(-1, *[1] * (x.dim() - 1))
        return logits.mul_(each).add_(x)

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """Rounded down; the second bound is never the better one for p_upper = 1 - p_lower."""
        q = 1 - p_lower if p_upper is None else p_upper
        if q >= p_lower:
            return 0.0
        ratio = math.log1p((p_lower - q) / q) / 2 if q > 0 else 0.0
        gap = max(q - p_lower, -1 + 2.0**-53)
        return self.strength * max(-math.log1p(gap), ratio) * (1 - SAFETY)

    def required_p(self, radius: float) -> float:
        """1 - exp(-radius / scale) / 2, rounded up."""
        if not 0 <= radius < math.inf:
            raise sc.InputError(f"radius must be non-negative and finite, got {radius}")
        return min(1.0, (1 - math.exp(-radius / self.strength) / 2) * (1 + SAFETY))
