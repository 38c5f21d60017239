"""Bounds on the mean of scores in [0, 1]: soft randomized smoothing (Zhai et al. 2020, appendix A.2, algorithm 2).

They certify the *soft* smoothed classifier, argmax of the mean softmax score: another classifier than the majority
vote, and the certificate says so through the name of its bound.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from smoothcert.core.errors import InputError
from smoothcert.stats.bounds import BOUNDS, Bound
from smoothcert.stats.tally import SCORE_UNIT, Tally

# Far above the rounding of the few float64 operations below, far below what the bounds give away.
ROUNDING = 1e-13


@dataclass(frozen=True)
class SoftBound(Bound):
    """What the two bounds share: the scores' temperature, the exact mean, and the margin taken off it."""

    inverse_temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.inverse_temperature < math.inf:
            raise InputError(f"inverse_temperature must be positive and finite, got {self.inverse_temperature}")

    @property
    def beta(self) -> float:
        """Inverse temperature of the softmax."""
        return self.inverse_temperature

    def top(self, tally: Tally) -> int:
        """The class with the highest mean score."""
        sums, _ = _scores(tally)
        return max(range(len(sums)), key=sums.__getitem__)

    def lower(self, tally: Tally, label: int, alpha: float) -> float:
        """Mean score of `label` minus the margin."""
        sums, _ = _scores(tally)
        mean = sums[label] * SCORE_UNIT / tally.draws
        return max(0.0, mean - self.margin(tally, label, alpha) - ROUNDING)

    def upper(self, tally: Tally, label: int, alpha: float) -> float:
        """Mean score of `label` plus the margin, plus the unit that rounding each score down may have cost."""
        sums, _ = _scores(tally)
        mean = sums[label] * SCORE_UNIT / tally.draws
        return min(1.0, mean + SCORE_UNIT + self.margin(tally, label, alpha) + ROUNDING)

    def unanimous(self, n: int) -> Tally:
        """All n scores are 1 for class 0."""
        unit = round(1 / SCORE_UNIT)
        return Tally((n, 0), (n * unit, 0), (n * unit * unit, 0))

    @abstractmethod
    def margin(self, tally: Tally, label: int, alpha: float) -> float:
        """How far the true mean may be from the sample mean on one side, with probability at least 1 - alpha."""


@BOUNDS.add
@dataclass(frozen=True)
class Hoeffding(SoftBound):
    """mean -+ sqrt(log(1/alpha) / (2n)) (Hoeffding 1963)."""

    name: ClassVar[str] = "hoeffding"

    def margin(self, tally: Tally, label: int, alpha: float) -> float:
        """The same for every label: Hoeffding does not look at the spread."""
        return math.sqrt(math.log(1 / alpha) / (2 * tally.draws))


@BOUNDS.add
@dataclass(frozen=True)
class EmpiricalBernstein(SoftBound):
    """mean -+ (sqrt(2 S^2 log(2/alpha)/n) + 7 log(2/alpha)/(3(n-1))), S^2 unbiased (Maurer & Pontil 2009, thm 4)."""

    name: ClassVar[str] = "bernstein"

    def margin(self, tally: Tally, label: int, alpha: float) -> float:
        """Small where the scores agree. The variance is an exact quotient of integers, so it cannot cancel."""
        n = tally.draws
        if n < 2:
            return 1.0
        sums, squares = _scores(tally)
        variance = (n * squares[label] - sums[label] ** 2) / (n * (n - 1)) * SCORE_UNIT**2  # S^2
        log_term = math.log(2 / alpha)
        return math.sqrt(2 * variance * log_term / n) + 7 * log_term / (3 * (n - 1))


def _scores(tally: Tally) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if tally.score_sums is None or tally.score_squares is None or not tally.draws:
        raise InputError("a soft bound needs a tally with at least one draw that kept its scores")
    return tally.score_sums, tally.score_squares
