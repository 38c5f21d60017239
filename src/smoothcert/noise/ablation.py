"""Discrete noise on pixel values: l0 radii (Lee, Yuan, Chang & Jaakkola 2019, section 3), in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from smoothcert.core.errors import InputError
from smoothcert.noise.base import NOISES, Noise, per_row
from smoothcert.stats.ablation import KEEP_BITS, AblationGeometry, keep_threshold

if TYPE_CHECKING:
    import torch
    from torch import Tensor

WORD = 2**62


@NOISES.add
@dataclass(frozen=True)
class Ablation(Noise):
    """Each coordinate is kept with probability `keep`, else it becomes one of the other `values` - 1 levels.

    Levels are 0, 1/(values-1), ..., 1. The radius is the largest r such that no input with at most r coordinates
    changed can have another top class: here perturbations *up to and including* r are covered. `keep` is rounded to
    what can be drawn exactly from random bits, and the radius is computed for that number, so sampling and proof agree
    to the last bit when `values` is a power of two (else to 2^-50). Perturbed inputs must be on the
    levels too.
    """

    name: ClassVar[str] = "ablation"
    strength_name: ClassVar[str] = "keep"
    keep: float = 0.8
    values: int = 256

    def __post_init__(self) -> None:
        if self.values < 2:
            raise InputError(f"values must be at least 2, got {self.values}")
        if not 1 / self.values < self.keep < 1:
            raise InputError(f"keep must lie between 1/values = {1 / self.values:.4g} and 1, got {self.keep}")
        if not 0 < self._threshold < 2**KEEP_BITS:
            raise InputError(f"keep = {self.keep} is too close to an end of (1/values, 1) to be drawn; move it by 1e-6")

    @property
    def norm(self) -> str:
        """Number of coordinates changed."""
        return "l0"

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """Keep a coordinate with probability q, else give it one of *all* levels; q + (1 - q)/values = keep."""
        import torch

        top = self.values - 1
        threshold: int | Tensor = self._threshold
        if strength is not None:
            each = [keep_threshold(keep, self.values) for keep in strength.float().tolist()]
            threshold = per_row(torch.tensor(each, device=x.device), x).long()
        coin = torch.randint(0, 2**KEEP_BITS, x.shape, generator=generator, device=x.device)
        level = torch.randint(0, WORD, x.shape, generator=generator, device=x.device).remainder_(self.values)
        return torch.where(coin < threshold, (x * top).round(), level.to(x.dtype)) / top

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The largest r with rho_r(p_lower) + rho_r(1 - p_upper) > 1; rho_r is the least mass left at distance r."""
        return self._geometry.radius(p_lower, p_upper)

    def required_p(self, radius: float) -> float:
        """The smallest float that leaves more than half of the mass at distance ceil(radius)."""
        return self._geometry.required_p(radius)

    def for_inputs(self, x: Tensor) -> Self:
        """Refuse inputs that are not on the levels."""
        levels = x * (self.values - 1)
        if bool(((levels - levels.round()).abs() > 1e-3).any()) or bool((x < 0).any()) or bool((x > 1).any()):
            raise InputError(
                f"inputs must be multiples of 1/{self.values - 1} in [0, 1] for Ablation(values={self.values}); "
                "round them or give the right number of values"
            )
        return self

    @property
    def _threshold(self) -> int:
        return keep_threshold(self.strength, self.values)

    @property
    def _geometry(self) -> AblationGeometry:
        return AblationGeometry(self._threshold, self.values)
