"""Gaussian noise: l2 radii (Cohen et al. 2019, theorem 1), and l_inf radii through ||d||_2 <= sqrt(dim) ||d||_inf."""

from __future__ import annotations

import dataclasses
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special
from smoothcert.core.randomness import RowStream
from smoothcert.noise.base import NOISES, SOFT_CLAMP, per_row
from smoothcert.noise.grid import RoundedLaw
from smoothcert.noise.gridded import GriddedNoise, exact_on_grid, less_offset
from smoothcert.noise.rows import Floats, fill_normals
from smoothcert.stats.rounding import check_radius, rounded_down, rounded_up

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@NOISES.add
@dataclass(frozen=True)
class Gaussian(GriddedNoise):
    """N(0, sigma^2 I). R = sigma/2 (Phi^-1(p_A) - Phi^-1(p_B)), with p_B <= 1 - p_A: sigma Phi^-1(p_A).

    `grid` = 1/255, for 8-bit images, makes this hold in floating point too (`GriddedNoise`).
    """

    name: ClassVar[str] = "gaussian"
    strength_name: ClassVar[str] = "sigma"
    additive: ClassVar[bool] = True
    of_inputs: ClassVar[frozenset[str]] = frozenset({"dim"})
    sigma: float
    norm: Literal["l2", "linf"] = "l2"
    dim: int | None = None  # number of coordinates of an input: needed for linf, filled in by the engine

    def __post_init__(self) -> None:
        self._check_strength()
        if self.norm not in ("l2", "linf"):
            raise InputError(f"norm of Gaussian noise must be 'l2' or 'linf', got {self.norm!r}")
        if self.dim is not None and (type(self.dim) is not int or self.dim < 1):
            raise InputError(f"dim must be the number of coordinates of an input, or left out, got {self.dim!r}")
        self._check_grid()

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """x + sigma * eps."""
        if self.grid is not None:
            return self._draw_on_grid(x, generator, strength)
        import torch

        eps = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return eps.mul_(self.sigma if strength is None else per_row(strength, x)).add_(x)

    @exact_on_grid
    def fill_rows(self, x: Floats, stream: RowStream, first: int, out: Floats) -> None:
        """x + sigma * eps, eps by Box and Muller; on a grid exactly."""
        fill_normals(stream, first, out)
        out *= np.float32(self.sigma)
        out += x

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """sigma/2 (Phi^-1(p_lower) - Phi^-1(p_upper)) - offset, over sqrt(dim) for linf."""
        if p_upper is None:
            radius = self.strength * float(special.ndtri(p_lower)) if p_lower > 0.5 else 0.0
        elif p_lower <= p_upper:
            radius = 0.0
        else:
            a, b = float(special.ndtri(p_lower)), float(special.ndtri(p_upper))
            # Less the rounding of both: their difference may cancel.
            radius = self.strength / 2 * (a - b - (abs(a) + abs(b)) * 2.0**-48)
        return rounded_down(less_offset(radius, self.offset) / self._l2_per_unit)

    def required_p(self, radius: float) -> float:
        """Phi((radius + offset) / sigma), with the radius times sqrt(dim) for linf."""
        check_radius(radius)
        return rounded_up(float(special.ndtr((radius * self._l2_per_unit + self.offset) / self.strength)))

    def soft_radius(
        self, top: Tensor, second: Tensor, strength: Tensor | None = None, *, clamp: float = SOFT_CLAMP
    ) -> Tensor:
        """Differentiable radius of mean scores, (B,) each (Zhai et al. 2020, equation 7).

        Scores are clamped to [clamp, 1 - clamp], so that no infinity or NaN reaches the gradient: Phi^-1 is infinite at
        0 and 1. Beyond, the soft radius is flat.
        """
        import torch

        z_top, z_second = (torch.special.ndtri(p.clamp(clamp, 1 - clamp)) for p in (top, second))
        sigma = self.strength if strength is None else strength.to(top)
        radius: Tensor = sigma / 2 * (z_top - z_second) / self._l2_per_unit  # (B,)
        return radius

    def for_inputs(self, x: Tensor) -> Self:
        """Fill in the dimension; refuse another one."""
        dim = x[0].numel()
        if self.dim not in (None, dim):
            raise InputError(f"dim of the noise is {self.dim} but the inputs have {dim} coordinates; leave dim out")
        return dataclasses.replace(super().for_inputs(x), dim=dim)

    def _law(self, levels: int) -> RoundedLaw:
        return GaussianLaw(self.strength, levels)

    @property
    def _l2_per_unit(self) -> float:
        """How large the l2 norm of a perturbation with norm 1 can be."""
        if self.norm == "l2":
            return 1.0
        if self.dim is None:
            raise InputError("linf radii depend on the dimension: give Gaussian(sigma, norm='linf', dim=...)")
        return math.sqrt(self.dim)


_OF_THREAD = threading.local()


def arithmetic() -> Any:
    """mpmath, for each thread its own: threads would change a shared precision under each other."""
    if not hasattr(_OF_THREAD, "mp"):
        import mpmath

        _OF_THREAD.mp = mpmath.MPContext()
    return _OF_THREAD.mp


@dataclass(frozen=True)
class GaussianLaw(RoundedLaw):
    """N(0, sigma^2) rounded to multiples of 1/levels: P(k <= -i) = Phi(-(i - 1/2) / (levels sigma))."""

    sigma: float
    levels: int

    def reach(self, bits: int) -> int:
        """One step beyond where the tail is negligible, because it begins half a step earlier."""
        return math.ceil(self._negligible(bits)) + 1

    def tail(self, i: int, bits: int) -> tuple[int, bool]:
        """With 64 bits to spare, and more until what is left of the error cannot change the number."""
        if i - 0.5 > self._negligible(bits):
            return 0, False
        mp, precision = arithmetic(), bits + 64
        while True:
            mp.prec = precision
            t = mp.mpf(2 * i - 1) / (mp.mpf(self.sigma) * (2 * self.levels) * mp.sqrt(2))
            units = mp.ldexp(mp.erfc(t), bits - 1)
            error = mp.ldexp(units, 24 - precision)  # erfc is good to a few bits, and multiplies t's error by 2 t^2
            low, high = int(mp.floor(units - error)), int(mp.floor(units + error))
            if low == high:
                return low, False
            precision *= 2

    def _negligible(self, bits: int) -> float:
        """Steps beyond which a tail is below 2^-bits: Phi(-t) <= exp(-t^2/2)/2, and t^2 = 2 bits log 2 here."""
        return self.sigma * self.levels * math.sqrt(2 * bits * math.log(2))
