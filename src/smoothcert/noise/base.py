"""The contract of a noise. A noise owns its geometry: the norm, the radius that a probability buys, and the reverse."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from smoothcert.core.described import Described, fields_of
from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NOISES: Registry[type[Noise]] = Registry("noise")
"""Noises by name. A noise registers itself (`@NOISES.add`), in its own file, or in one from outside the package."""


@dataclass(frozen=True)
class Noise(Described, ABC):
    """A distribution around an input. Frozen; its strength (sigma, half width, ...) is a field."""

    registry: ClassVar[Registry[Any]] = NOISES
    strength_name: ClassVar[str]

    @property
    @abstractmethod
    def norm(self) -> str:
        """The norm that radii are measured in: "l2", "l1", "l0" or "linf"."""

    @abstractmethod
    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """One noisy copy of every row of x, (B, ...) -> (B, ...); `strength` (B,) gives each row its own."""

    @abstractmethod
    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The radius certified by p_A >= p_lower and p_B <= p_upper (default 1 - p_lower), rounded down; at least 0."""

    @abstractmethod
    def required_p(self, radius: float) -> float:
        """The smallest p_lower whose radius reaches `radius` with p_upper = 1 - p_lower, rounded up."""

    @property
    def strength(self) -> float:
        """How strong the noise is as it is drawn, in float32: radii are computed for this number, not for its name."""
        return float(np.float32(getattr(self, self.strength_name)))

    def with_strength(self, strength: float) -> Self:
        """The same noise at another strength: per-input strengths are lists of these."""
        return dataclasses.replace(self, **{self.strength_name: strength})

    def for_inputs(self, x: Tensor) -> Self:
        """This noise, bound to inputs like x (B, ...); refuses inputs that it cannot be added to soundly."""
        return self

    def at(self, x: Tensor) -> Self:
        """This noise around one input x (...): with what only that input decides."""
        return self

    def describe(self) -> dict[str, Any]:
        """Name, parameters and norm, as they stand in a record."""
        # Sums of float32 numbers: an adversarial classifier can see the rounding of x + noise. `GriddedNoise` cures it.
        return {"name": self.name} | fields_of(self) | {"norm": self.norm, "arithmetic": "float32"}


def check_positive(name: str, value: float) -> None:
    """Refuse a scale that is not a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive finite number, got {value}")


def per_row(strength: Tensor, x: Tensor) -> Tensor:
    """A strength per row, (B,), shaped to multiply x (B, ...)."""
    return strength.to(x).view(-1, *[1] * (x.dim() - 1))  # (B, 1, ..., 1)
