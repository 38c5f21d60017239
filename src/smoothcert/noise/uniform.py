"""Uniform noise on a cube: l1 radii (Yang et al. 2020, section 4; also Lee et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from smoothcert.core.randomness import RowStream
from smoothcert.noise.base import NOISES, SOFT_CLAMP, per_row
from smoothcert.noise.grid import RoundedLaw
from smoothcert.noise.gridded import GriddedNoise, exact_on_grid, less_offset
from smoothcert.noise.rows import Floats, fill_uniform
from smoothcert.stats.rounding import check_radius, rounded_down, rounded_up

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@NOISES.add
@dataclass(frozen=True)
class Uniform(GriddedNoise):
    """Uniform on [-half_width, half_width]^d. R = half_width (p_A - p_B), with p_B <= 1 - p_A: half_width (2 p_A - 1).

    A shift by delta moves at most ||delta||_1 / (2 half_width) of the mass. Noise of standard deviation s has
    half_width sqrt(3) s. `grid` = 1/255, for 8-bit images, makes this hold in floating point too (`GriddedNoise`).
    """

    name: ClassVar[str] = "uniform"
    strength_name: ClassVar[str] = "half_width"
    additive: ClassVar[bool] = True
    half_width: float

    def __post_init__(self) -> None:
        self._check_strength()
        self._check_grid()

    @property
    def norm(self) -> str:
        """Manhattan distance."""
        return "l1"

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """x + half_width * (2u - 1)."""
        if self.grid is not None:
            return self._draw_on_grid(x, generator, strength)
        import torch

        u = torch.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return u.mul_(2).sub_(1).mul_(self.half_width if strength is None else per_row(strength, x)).add_(x)

    @exact_on_grid
    def fill_rows(self, x: Floats, stream: RowStream, first: int, out: Floats) -> None:
        """x + half_width * u, u from 32 bits; on a grid exactly."""
        fill_uniform(stream, first, out)
        out *= np.float32(self.half_width)
        out += x

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """half_width (p_lower - p_upper) - offset."""
        radius = self.strength * (p_lower - (1 - p_lower if p_upper is None else p_upper))
        return rounded_down(less_offset(radius, self.offset))

    def required_p(self, radius: float) -> float:
        """(1 + (radius + offset) / half_width) / 2; 1, which no finite sample shows, where the noise is too narrow."""
        check_radius(radius)
        return rounded_up(0.5 + (radius + self.offset) / (2 * self.strength))

    def soft_radius(
        self, top: Tensor, second: Tensor, strength: Tensor | None = None, *, clamp: float = SOFT_CLAMP
    ) -> Tensor:
        """Differentiable radius of mean scores, (B,) each; finite at all of them, so none is clamped."""
        return (self.strength if strength is None else strength.to(top)) * (top - second)  # (B,)

    def _law(self, levels: int) -> RoundedLaw:
        return UniformLaw(self.strength, levels)


@dataclass(frozen=True)
class UniformLaw(RoundedLaw):
    """Uniform on [-half_width, half_width], rounded to multiples of 1/levels, in fractions."""

    half_width: float
    levels: int

    def reach(self, bits: int) -> int:
        """The largest k, whatever the bits: (k - 1/2) / levels < half_width."""
        return math.ceil(Fraction(self.half_width) * self.levels + Fraction(1, 2)) - 1

    def tail(self, i: int, bits: int) -> tuple[int, bool]:
        """P(k <= -i) = (half_width - (i - 1/2) / levels) / (2 half_width)."""
        width = Fraction(self.half_width)
        units = (width - Fraction(2 * i - 1, 2 * self.levels)) / (2 * width) * 2**bits
        return math.floor(units), units.denominator == 1
