"""Discrete noise on pixel values: l0 radii (Lee, Yuan, Chang & Jaakkola 2019, section 3), in exact integers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import RowStream
from smoothcert.noise.base import NOISES, Noise, per_row
from smoothcert.noise.rows import Floats, parts, words_of
from smoothcert.stats.rounding import check_radius

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KEEP_BITS = 24
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
        if type(self.values) is not int or not 2 <= self.values <= 2**KEEP_BITS:
            raise InputError(f"values must be at least 2 and at most 2^{KEEP_BITS}, got {self.values!r}")
        if not isinstance(self.keep, float) or not 1 / self.values < self.keep < 1:
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

    def fill_rows(self, x: Floats, stream: RowStream, first: int, out: Floats) -> None:
        """The same, with 24 bits of a word for the coin and 64 for the level."""
        top, threshold = np.float32(self.values - 1), self._threshold
        levels = np.rint(x * top)  # (d,)
        for part in parts(len(out), 12 * len(x)):
            level, coin = words_of(stream, first + part.start, part.stop - part.start, ("<u8", "<u4"), len(x))
            np.copyto(out[part], level % np.uint64(self.values), casting="unsafe")
            np.copyto(out[part], levels, where=coin >> np.uint32(32 - KEEP_BITS) < threshold)
            out[part] /= top

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The largest r with rho_r(p_lower) + rho_r(1 - p_upper) > 1; rho_r is the least mass left at distance r.

        That is: a set with mass p at x has at least mass rho_r(p) at any x' that differs from x in r coordinates.
        """
        if p_upper is None and p_lower < 1:
            return float(next(r for r in itertools.count() if p_lower < self.required_p(r + 1)))
        low = Fraction(p_lower)
        high = low if p_upper is None else 1 - Fraction(p_upper)
        if low >= 1 or high >= 1:
            raise InputError("p_lower must be below 1 and p_upper above 0: no finite number of draws shows more")
        for r in itertools.count(1):
            regions, whole = _regions(self._threshold, self.values, r)
            if _fill(low, regions, whole) + _fill(high, regions, whole) <= 1:
                return float(r - 1)
        raise AssertionError("unreachable: the least mass tends to 0")

    def required_p(self, radius: float) -> float:
        """The smallest float that leaves more than half of the mass at distance ceil(radius)."""
        check_radius(radius)
        r = math.ceil(radius)
        return math.nextafter(0.5, 1) if r == 0 else _required_p(self._threshold, self.values, r)

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
