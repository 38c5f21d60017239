"""Gaussian noise: l2 radii (Cohen et al. 2019, theorem 1), and l_inf radii through ||d||_2 <= sqrt(dim) ||d||_inf."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from smoothcert.errors import InputError
from smoothcert.noise.base import Noise, check_positive, per_row
from smoothcert.stats.geometry import gaussian_radius, gaussian_required_p

# Phi^-1 is infinite at 0 and 1, and float32 is there already at 1 - 6e-8. Beyond this the soft radius is flat.
SOFT_CLAMP = 1e-6


@dataclass(frozen=True)
class Gaussian(Noise):
    """N(0, sigma^2 I). R = sigma/2 (Phi^-1(p_A) - Phi^-1(p_B)), with p_B <= 1 - p_A: sigma Phi^-1(p_A)."""

    name: ClassVar[str] = "gaussian"
    strength_name: ClassVar[str] = "sigma"
    sigma: float
    norm: Literal["l2", "linf"] = "l2"
    dim: int | None = None  # number of coordinates of an input: needed for linf, filled in by the engine

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        if self.norm not in ("l2", "linf"):
            raise InputError(f"norm of Gaussian noise must be 'l2' or 'linf', got {self.norm!r}")

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """x + sigma * eps."""
        eps = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return eps.mul_(self.sigma if strength is None else per_row(strength, x)).add_(x)

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """sigma/2 (Phi^-1(p_lower) - Phi^-1(p_upper)), over sqrt(dim) for linf."""
        return gaussian_radius(self.strength, p_lower, p_upper, self._l2_per_unit)

    def required_p(self, radius: float) -> float:
        """Phi(radius / sigma), with the radius times sqrt(dim) for linf."""
        return gaussian_required_p(self.strength, radius, self._l2_per_unit)

    def soft_radius(self, top: Tensor, second: Tensor, strength: Tensor | None = None) -> Tensor:
        """Differentiable radius of mean scores, (B,) each (Zhai et al. 2020, equation 7).

        Scores are clamped to [1e-6, 1 - 1e-6], so that no infinity or NaN reaches the gradient.
        """
        z_top, z_second = (torch.special.ndtri(p.clamp(SOFT_CLAMP, 1 - SOFT_CLAMP)) for p in (top, second))
        sigma = self.strength if strength is None else strength.to(top)
        radius: Tensor = sigma / 2 * (z_top - z_second) / self._l2_per_unit  # (B,)
        return radius

    def for_inputs(self, x: Tensor) -> Self:
        """Fill in the dimension; refuse another one."""
        dim = x[0].numel()
        if self.dim not in (None, dim):
            raise InputError(f"dim of the noise is {self.dim} but the inputs have {dim} coordinates; leave dim out")
        return dataclasses.replace(self, dim=dim)

    @property
    def _l2_per_unit(self) -> float:
        """How large the l2 norm of a perturbation with norm 1 can be."""
        if self.norm == "l2":
            return 1.0
        if self.dim is None:
            raise InputError("linf radii depend on the dimension: give Gaussian(sigma, norm='linf', dim=...)")
        return math.sqrt(self.dim)
