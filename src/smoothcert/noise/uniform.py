"""Uniform noise on a cube: l1 radii (Yang et al. 2020, section 4; also Lee et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smoothcert.noise.base import Noise, check_positive, per_row
from smoothcert.stats.geometry import uniform_radius, uniform_required_p


@dataclass(frozen=True)
class Uniform(Noise):
    """Uniform on [-half_width, half_width]^d. R = half_width (p_A - p_B), with p_B <= 1 - p_A: half_width (2 p_A - 1).

    A shift by delta moves at most ||delta||_1 / (2 half_width) of the mass. Noise of standard deviation s has
    half_width sqrt(3) s.
    """

    name: ClassVar[str] = "uniform"
    strength_name: ClassVar[str] = "half_width"
    half_width: float

    def __post_init__(self) -> None:
        check_positive("half_width", self.half_width)

    @property
    def norm(self) -> str:
        """Manhattan distance."""
        return "l1"

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """x + half_width * (2u - 1)."""
        u = torch.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return u.mul_(2).sub_(1).mul_(self.half_width if strength is None else per_row(strength, x)).add_(x)

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """half_width (p_lower - p_upper)."""
        return uniform_radius(self.strength, p_lower, p_upper)

    def required_p(self, radius: float) -> float:
        """(1 + radius / half_width) / 2; 1, which no finite sample shows, where the noise is too narrow."""
        return uniform_required_p(self.strength, radius)

    def soft_radius(self, top: Tensor, second: Tensor, strength: Tensor | None = None) -> Tensor:
        """Differentiable radius of mean scores, (B,) each."""
        return (self.strength if strength is None else strength.to(top)) * (top - second)  # (B,)
