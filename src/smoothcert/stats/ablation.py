"""What ablation noise buys, in exact integers: the geometry of `noise.Ablation`, without torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.stats.geometry import check_radius

KEEP_BITS = 24


@dataclass(frozen=True)
class AblationGeometry:
    """l0 radii where a coordinate is kept with probability threshold/2^24, else drawn from all `values` levels."""

    threshold: int
    values: int

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> AblationGeometry:
        """Read a description, as in `run.json`; one that no `Ablation` gives is refused."""
        keep, values = description.get("keep"), description.get("values")
        if type(keep) is float and type(values) is int and 2 <= values <= 2**KEEP_BITS and 1 / values < keep < 1:
            threshold = keep_threshold(float(np.float32(keep)), values)
            if 0 < threshold < 2**KEEP_BITS and description.get("norm") == "l0":
                return cls(threshold, values)
        raise InputError(f"the record describes no ablation noise that can be ({dict(description)}): it was damaged")

    @property
    def norm(self) -> str:
        """Number of coordinates changed."""
        return "l0"

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The largest r with rho_r(p_lower) + rho_r(1 - p_upper) > 1; rho_r is the least mass left at distance r."""
        if p_upper is None and p_lower < 1:
            return float(next(r for r in itertools.count() if p_lower < self.required_p(r + 1)))
        low = Fraction(p_lower)
        high = low if p_upper is None else 1 - Fraction(p_upper)
        if low >= 1 or high >= 1:
            raise InputError("p_lower must be below 1 and p_upper above 0: no finite number of draws shows more")
        for r in itertools.count(1):
            if self._least_mass(r, low) + self._least_mass(r, high) <= 1:
                return float(r - 1)
        raise AssertionError("unreachable: the least mass tends to 0")

    def required_p(self, radius: float) -> float:
        """The smallest float that leaves more than half of the mass at distance ceil(radius)."""
        check_radius(radius)
        r = math.ceil(radius)
        return math.nextafter(0.5, 1) if r == 0 else _required_p(self.threshold, self.values, r)

    def _least_mass(self, r: int, p: Fraction) -> Fraction:
        """rho_r(p): a set with mass p at x has at least this mass at any x' that differs in r coordinates."""
        regions, whole = _regions(self.threshold, self.values, r)
        return _fill(p, regions, whole)


@lru_cache(maxsize=4096)
def _required_p(threshold: int, values: int, r: int) -> float:
    """The smallest float above the p with rho_r(p) = 1/2: the same filling, with the roles of x and x' exchanged."""
    regions, whole = _regions(threshold, values, r)
    exact = _fill(Fraction(1, 2), [(there, here) for here, there in regions], whole)
    p = float(exact)
    while Fraction(p) <= exact:
        p = math.nextafter(p, 2)
    return p


def _fill(mass: Fraction, regions: list[tuple[int, int]], whole: int) -> Fraction:
    """Fill regions in order until `mass` of their first measure is used up; what that is in the second.

    Whole numbers until the last line: reducing fractions on the way would take most of the time.
    """
    left, filled = mass.numerator * whole, 0  # both over whole * denominator
    for first, second in regions:
        if first * mass.denominator >= left:
            rest = Fraction(left * second, first)
            return (filled * mass.denominator + rest) / (whole * mass.denominator)
        left, filled = left - first * mass.denominator, filled + second
    return Fraction(filled, whole)


@lru_cache(maxsize=4096)
def keep_threshold(keep: float, values: int) -> int:
    """q = (keep - 1/values) / (1 - 1/values) in units of 2^-24."""
    share: float = (keep - 1 / values) / (1 - 1 / values)
    return round(share * (1 << KEEP_BITS))


@lru_cache(maxsize=4096)
def _regions(threshold: int, values: int, r: int) -> tuple[list[tuple[int, int]], int]:
    """Masses under x and under x' of the regions of equal likelihood ratio, largest ratio first, and what is 1.

    Only the r coordinates where x and x' differ matter (the others have the same law under both). There a noisy
    coordinate equals x's with probability a, equals x' with probability b, else neither; the likelihood ratio is
    (a/b)^s with s = (number equal to x) - (number equal to x'). Lee et al. count points of the whole space for the
    same sums.
    """
    for shallow in range(0, r, 200):  # each starts from the one before, so the recursion stays shallow
        _differences(threshold, values, shallow)
    weights = _differences(threshold, values, r)  # index s + r
    whole = (values << KEEP_BITS) ** r
    return [(weights[r + s], weights[r - s]) for s in range(r, -r - 1, -1)], whole


@lru_cache(maxsize=4096)
def _differences(threshold: int, values: int, r: int) -> tuple[int, ...]:
    """Law of s for r coordinates, as integers over (values 2^24)^r: one more coordinate per step."""
    if r == 0:
        return (1,)
    changed = (1 << KEEP_BITS) - threshold  # b, over values 2^24
    kept = threshold * values + changed  # a
    neither = (values - 2) * changed
    before = (0, 0, *_differences(threshold, values, r - 1), 0, 0)
    return tuple(changed * before[i + 2] + neither * before[i + 1] + kept * before[i] for i in range(2 * r + 1))
