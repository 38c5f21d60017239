"""What a probability buys, as formulas alone: without torch, for noises and for whoever has only a record.

The theorems and their references stand with the noises (`smoothcert.noise`), which use these formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from smoothcert.errors import InputError

# float64 formulas below are good to a few units in the last place; what is claimed is moved this much to the safe
# side, relative, which is far more than their error and far less than anybody can see (tested against 50 digits).
SAFETY = 2.0**-46
STRENGTHS = {"gaussian": "sigma", "uniform": "half_width", "laplace": "scale"}
NORMS = {"gaussian": ("l2", "linf"), "uniform": ("l1",), "laplace": ("l1",)}


@dataclass(frozen=True)
class RecordedGeometry:
    """The geometry of a noise, from how it describes itself in a record; equal to the noise's own, bit for bit.

    `strength` is that of float32, as it was drawn. `per_unit` is how large the l2 norm of a perturbation with norm 1
    can be: sqrt(dim) for linf radii of Gaussian noise, else 1.
    """

    name: str
    strength: float
    norm: str
    per_unit: float = 1.0

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> RecordedGeometry:
        """Read a description, as in `run.json`; a noise without a formula here is refused."""
        name = description.get("name")
        if name not in STRENGTHS:
            raise InputError(
                f"radii of the noise {name!r} cannot be computed from a record, only those of {', '.join(STRENGTHS)}; "
                "certify again with the model"
            )
        strength, norm = _as_drawn(description.get(STRENGTHS[name])), description.get("norm")
        if strength is None or norm not in NORMS[name]:
            raise InputError(f"the record describes no {name} noise that can be ({dict(description)}): it was damaged")
        dim = description.get("dim")
        if norm == "linf" and (type(dim) is not int or dim < 1):
            raise InputError("linf radii depend on the dimension of the inputs, which the record does not name")
        return cls(name, strength, str(norm), math.sqrt(dim) if norm == "linf" and dim else 1.0)

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The radius certified by p_A >= p_lower and p_B <= p_upper (default 1 - p_lower), rounded down; at least 0."""
        if self.name == "gaussian":
            return gaussian_radius(self.strength, p_lower, p_upper, self.per_unit)
        formula = uniform_radius if self.name == "uniform" else laplace_radius
        return formula(self.strength, p_lower, p_upper)

    def required_p(self, radius: float) -> float:
        """The smallest p_lower whose radius reaches `radius` with p_upper = 1 - p_lower, rounded up."""
        if self.name == "gaussian":
            return gaussian_required_p(self.strength, radius, self.per_unit)
        formula = uniform_required_p if self.name == "uniform" else laplace_required_p
        return formula(self.strength, radius)


def gaussian_radius(sigma: float, p_lower: float, p_upper: float | None, per_unit: float = 1.0) -> float:
    """sigma/2 (Phi^-1(p_lower) - Phi^-1(p_upper)), in a norm whose unit is at most `per_unit` in l2."""
    if p_upper is None:
        radius = sigma * float(special.ndtri(p_lower)) if p_lower > 0.5 else 0.0
    elif p_lower <= p_upper:
        radius = 0.0
    else:
        a, b = float(special.ndtri(p_lower)), float(special.ndtri(p_upper))
        radius = sigma / 2 * (a - b - (abs(a) + abs(b)) * 2.0**-48)  # less their rounding: the difference may cancel
    return rounded_down(radius / per_unit)


def gaussian_required_p(sigma: float, radius: float, per_unit: float = 1.0) -> float:
    """Phi(radius / sigma)."""
    check_radius(radius)
    return rounded_up(float(special.ndtr(radius * per_unit / sigma)))


def uniform_radius(half_width: float, p_lower: float, p_upper: float | None) -> float:
    """half_width (p_lower - p_upper)."""
    return rounded_down(half_width * (p_lower - (1 - p_lower if p_upper is None else p_upper)))


def uniform_required_p(half_width: float, radius: float) -> float:
    """(1 + radius / half_width) / 2; 1, which no finite sample shows, where the noise is too narrow."""
    check_radius(radius)
    return rounded_up(0.5 + radius / (2 * half_width))


def laplace_radius(scale: float, p_lower: float, p_upper: float | None) -> float:
    """scale max(-log(1 - p_lower + p_upper), log(p_lower / p_upper) / 2)."""
    gap = 2 * (1 - p_lower) if p_upper is None else 1 - p_lower + p_upper
    if gap >= 1:
        return 0.0
    ratio = 0.0
    if p_upper:  # log1p, because the logarithm of a quotient near 1 would cancel
        ratio = 0.5 * math.log1p((p_lower - p_upper) / p_upper * (1 - 2.0**-50))
    # The logarithm of a number near 1 loses what 1 - p lost; the gap is at least as large as computed plus one ulp.
    return rounded_down(scale * max(-math.log(math.nextafter(gap, 1)), ratio))


def laplace_required_p(scale: float, radius: float) -> float:
    """1 - exp(-radius / scale) / 2."""
    check_radius(radius)
    return rounded_up(1 - math.exp(-radius / scale) / 2)


def check_radius(radius: float) -> None:
    """Refuse a radius that is not a non-negative finite number."""
    if not 0 <= radius < math.inf:
        raise InputError(f"radius must be non-negative and finite, got {radius}")


def rounded_down(radius: float) -> float:
    """At least 0 and a hair below: a claim is never rounded up."""
    return max(0.0, radius - abs(radius) * SAFETY)


def rounded_up(p: float) -> float:
    """A requirement on a probability, a hair above."""
    return min(1.0, p + p * SAFETY)


def _as_drawn(value: object) -> float | None:
    """A strength as float32 draws it; None if it is no positive number there."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float(np.finfo(np.float32).max):
        return None
    return float(np.float32(value)) or None
