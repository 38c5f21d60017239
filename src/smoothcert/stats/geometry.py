"""What a probability buys, as formulas alone: without torch, for noises and for whoever has only a record.

The theorems and their references stand with the noises (`smoothcert.noise`), which use these formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from smoothcert.core.errors import InputError

# float64 formulas below are good to a few units in the last place; what is claimed is moved this much to the safe
# side, relative, which is far more than their error and far less than anybody can see (tested against 50 digits).
SAFETY = 2.0**-46
STRENGTHS = {"gaussian": "sigma", "uniform": "half_width", "laplace": "scale"}
GRIDDED = ("gaussian", "uniform")
MOST_GRID_LEVELS = 65535
NORMS = {"gaussian": ("l2", "linf"), "uniform": ("l1",), "laplace": ("l1",)}


@dataclass(frozen=True)
class RecordedGeometry:
    """The geometry of a noise, from how it describes itself in a record; equal to the noise's own, bit for bit.

    `strength` is as it was drawn: that of float32, or on a grid the number itself. `per_unit` is how large the l2 norm
    of a perturbation with norm 1 can be: sqrt(dim) for linf radii of Gaussian noise, else 1. `offset` is how far the
    input may be from the grid.
    """

    name: str
    strength: float
    norm: str
    per_unit: float = 1.0
    offset: float = 0.0

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> RecordedGeometry:
        """Read a description, as in `run.json`; a noise without a formula here is refused."""
        name = description.get("name")
        if not isinstance(name, str) or name not in STRENGTHS:
            raise InputError(
                f"radii of the noise {name!r} cannot be computed from a record, only those of {', '.join(STRENGTHS)}; "
                "certify again with the model"
            )
        strength = _as_drawn(description.get(STRENGTHS[name]), on_grid="grid" in description)
        norm, offset = description.get("norm"), _offset(description)
        if strength is None or offset is None or norm not in NORMS[name]:
            raise InputError(f"the record describes no {name} noise that can be ({dict(description)}): it was damaged")
        dim = description.get("dim")
        if norm == "linf" and (type(dim) is not int or dim < 1):
            raise InputError("linf radii depend on the dimension of the inputs, which the record does not name")
        return cls(name, strength, str(norm), math.sqrt(dim) if norm == "linf" and dim else 1.0, offset)

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The radius certified by p_A >= p_lower and p_B <= p_upper (default 1 - p_lower), rounded down; at least 0."""
        if self.name == "gaussian":
            return gaussian_radius(self.strength, p_lower, p_upper, self.per_unit, self.offset)
        if self.name == "uniform":
            return uniform_radius(self.strength, p_lower, p_upper, self.offset)
        return laplace_radius(self.strength, p_lower, p_upper)

    def required_p(self, radius: float) -> float:
        """The smallest p_lower whose radius reaches `radius` with p_upper = 1 - p_lower, rounded up."""
        if self.name == "gaussian":
            return gaussian_required_p(self.strength, radius, self.per_unit, self.offset)
        if self.name == "uniform":
            return uniform_required_p(self.strength, radius, self.offset)
        return laplace_required_p(self.strength, radius)


def gaussian_radius(
    sigma: float, p_lower: float, p_upper: float | None, per_unit: float = 1.0, offset: float = 0.0
) -> float:
    """sigma/2 (Phi^-1(p_lower) - Phi^-1(p_upper)) - offset, in a norm whose unit is at most `per_unit` in l2."""
    if p_upper is None:
        radius = sigma * float(special.ndtri(p_lower)) if p_lower > 0.5 else 0.0
    elif p_lower <= p_upper:
        radius = 0.0
    else:
        a, b = float(special.ndtri(p_lower)), float(special.ndtri(p_upper))
        radius = sigma / 2 * (a - b - (abs(a) + abs(b)) * 2.0**-48)  # less their rounding: the difference may cancel
    return rounded_down(_less(radius, offset) / per_unit)


def gaussian_required_p(sigma: float, radius: float, per_unit: float = 1.0, offset: float = 0.0) -> float:
    """Phi((radius + offset) / sigma)."""
    check_radius(radius)
    return rounded_up(float(special.ndtr((radius * per_unit + offset) / sigma)))


def uniform_radius(half_width: float, p_lower: float, p_upper: float | None, offset: float = 0.0) -> float:
    """half_width (p_lower - p_upper) - offset."""
    radius = half_width * (p_lower - (1 - p_lower if p_upper is None else p_upper))
    return rounded_down(_less(radius, offset))


def uniform_required_p(half_width: float, radius: float, offset: float = 0.0) -> float:
    """(1 + (radius + offset) / half_width) / 2; 1, which no finite sample shows, where the noise is too narrow."""
    check_radius(radius)
    return rounded_up(0.5 + (radius + offset) / (2 * half_width))


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


def grid_levels(grid: object) -> int:
    """The whole number q of a grid 1/q."""
    if isinstance(grid, int | float) and not isinstance(grid, bool) and 1 / (MOST_GRID_LEVELS + 0.5) < grid < 1.5:
        levels = round(1 / grid)
        if math.isclose(levels * grid, 1, rel_tol=1e-9):
            return levels
    raise InputError(
        f"grid must be one over a whole number up to {MOST_GRID_LEVELS}, such as 1/255 for 8-bit images, got {grid}"
    )


def grid_offset(gaps: Sequence[float], dim: int, levels: int, order: int) -> float:
    """How far an input of `dim` numbers is from its nearest grid point, rounded up; `gaps` are in steps of 1/levels.

    In l1 or l2 (`order`), up to the next sixteenth of the largest possible distance: then a data set has few offsets,
    and procedures that prepare tables for a geometry need few of them.
    """
    distance = math.pow(math.fsum(gap**order for gap in gaps), 1 / order)
    largest = math.pow(dim, 1 / order) / 2
    sixteenths = math.ceil(distance / largest * 16)
    return sixteenths * largest / 16 / levels * (1 + SAFETY)


def _less(radius: float, offset: float) -> float:
    """A radius less an offset; what the radius lost by rounding must not be measured by the smaller difference."""
    return rounded_down(radius) - offset if offset else radius


def _as_drawn(value: object, *, on_grid: bool) -> float | None:
    """A strength as it is drawn, on a grid or in float32; None if it is no positive number there."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float(np.finfo(np.float32).max):
        return None
    return float(value) if on_grid else float(np.float32(value)) or None


def _offset(description: Mapping[str, Any]) -> float | None:
    """How far the input may be from the grid of its noise, if it has one; None where that makes no sense."""
    offset = description.get("offset", 0.0)
    if "grid" not in description:
        return 0.0 if "offset" not in description and description.get("arithmetic") != "grid" else None
    try:
        grid_levels(description["grid"])
    except InputError:
        return None
    fits = description["name"] in GRIDDED and description.get("arithmetic") == "grid"
    good = isinstance(offset, int | float) and not isinstance(offset, bool) and 0 <= offset < math.inf
    return float(offset) if fits and good else None
