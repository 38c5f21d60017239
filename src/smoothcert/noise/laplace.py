"""Laplace noise: l1 radii (Teng, Lee & Yuan 2020; Lecuyer et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from smoothcert.core.randomness import RowStream
from smoothcert.noise.base import NOISES, Noise, per_row
from smoothcert.noise.rows import Floats, fill_laplace
from smoothcert.stats.rounding import check_radius, rounded_down, rounded_up

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@NOISES.add
@dataclass(frozen=True)
class Laplace(Noise):
    """Independent Laplace(scale) coordinates. R = scale max(-log(1 - p_A + p_B), log(p_A / p_B) / 2).

    A shift by delta changes any probability by a factor of at most e^t, t = ||delta||_1 / scale, so p_A keeps at least
    max(1 - e^t (1 - p_A), e^-t p_A) and p_B at most e^t p_B. With p_B <= 1 - p_A: R = -scale log(2 (1 - p_A)).
    """

    name: ClassVar[str] = "laplace"
    strength_name: ClassVar[str] = "scale"
    additive: ClassVar[bool] = True
    scale: float

    def __post_init__(self) -> None:
        self._check_strength()

    @property
    def norm(self) -> str:
        """Manhattan distance."""
        return "l1"

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """x + scale * (E - E'), the difference of two unit exponentials.

        Made of uniforms: torch's own `exponential_` hands a 31-bit seed to another generator on some CPUs.
        """
        import torch

        u = torch.rand((2, *x.shape), generator=generator, dtype=x.dtype, device=x.device)
        e = u.neg_().log1p_()  # (2, B, ...), minus unit exponentials; u < 1, so finite
        return e[1].sub_(e[0]).mul_(self.scale if strength is None else per_row(strength, x)).add_(x)

    def fill_rows(self, x: Floats, stream: RowStream, first: int, out: Floats) -> None:
        """x + scale * e."""
        fill_laplace(stream, first, out)
        out *= np.float32(self.scale)
        out += x

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The better of the two bounds; the first always is for p_upper = 1 - p_lower."""
        gap = 2 * (1 - p_lower) if p_upper is None else 1 - p_lower + p_upper
        if gap >= 1:
            return 0.0
        ratio = 0.0
        if p_upper:  # log1p, because the logarithm of a quotient near 1 would cancel
            ratio = 0.5 * math.log1p((p_lower - p_upper) / p_upper * (1 - 2.0**-50))
        # The logarithm of a number near 1 loses what 1 - p lost; the gap is at least as large as computed plus one ulp.
        return rounded_down(self.strength * max(-math.log(math.nextafter(gap, 1)), ratio))

    def required_p(self, radius: float) -> float:
        """1 - exp(-radius / scale) / 2."""
        check_radius(radius)
        return rounded_up(1 - math.exp(-radius / self.strength) / 2)
