"""Exact binomial inference, rounded to the safe side: Clopper-Pearson bounds and the test of the two top classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special
from smoothcert.stats.bounds import BOUNDS, Bound
from smoothcert.stats.tally import Tally

# A quantile function may round to the wrong side by a few units in the last place, and so may the tail that checks
# it. Every bound is moved this many units to the safe side before its tail is checked, which costs 2e-15 of it.
GUARD_ULPS = 8
# The check itself is asked to hold with room for the rounding of the incomplete beta function, which grows with n
# (seen: below 1e-13 at n = 1e5, 7e-12 at 1e7).
TAIL_SLACK = 1e-12


def lower_bound(successes: int, n: int, alpha: float) -> float:
    """Clopper-Pearson lower confidence bound for a success probability (Clopper & Pearson 1934).

    The largest p with P(Binomial(n, p) >= successes) <= alpha, rounded down: never above the exact value, so that it
    is at most the truth with probability at least 1 - alpha.
    """
    _check(successes, n, alpha)
    if successes == 0:
        return 0.0
    quantile = float(special.betaincinv(successes, n - successes + 1, alpha))
    ulps = GUARD_ULPS
    while special.betainc(successes, n - successes + 1, p := _step(quantile, -ulps)) > _safely(alpha, n):
        ulps *= 2
    return p


def upper_bound(successes: int, n: int, alpha: float) -> float:
    """Clopper-Pearson upper bound: the smallest p with P(Binomial(n, p) <= successes) <= alpha, rounded up."""
    _check(successes, n, alpha)
    if successes == n:
        return 1.0
    quantile = float(special.betainccinv(successes + 1, n - successes, alpha))
    ulps = GUARD_ULPS
    # betaincc keeps the small tail exact where 1 - betainc would cancel.
    while (p := _step(quantile, ulps)) < 1 and (special.betaincc(successes + 1, n - successes, p) > _safely(alpha, n)):
        ulps *= 2
    return p


def top_two_p_value(top: int, runner_up: int) -> float:
    """Two-sided p-value of "the two classes are equally likely" given their votes (Hung & Fithian 2019).

    Exact and rounded up: at 1/2 the binomial is symmetric, so it is twice the upper tail.
    """
    if min(top, runner_up) < 0:
        raise InputError(f"votes must not be negative, got {top} and {runner_up}")
    if top == runner_up:
        return 1.0
    high, low = max(top, runner_up), min(top, runner_up)
    tail = float(special.betainc(high, low + 1, 0.5))
    return min(1.0, 2 * tail * (1 + TAIL_SLACK * (1 + (high + low) / 1e5)))


@BOUNDS.add
@dataclass(frozen=True)
class ClopperPearson(Bound):
    """Exact bound on the probability of a vote (as in Cohen et al. 2019). Certifies the hard, majority classifier."""

    name: ClassVar[str] = "clopper-pearson"

    def top(self, tally: Tally) -> int:
        """The class with the most votes."""
        return tally.top

    def lower(self, tally: Tally, label: int, alpha: float) -> float:
        """Clopper-Pearson lower bound for the votes of `label`."""
        return lower_bound(tally.votes[label], tally.draws, alpha)

    def upper(self, tally: Tally, label: int, alpha: float) -> float:
        """Clopper-Pearson upper bound for the votes of `label`."""
        return upper_bound(tally.votes[label], tally.draws, alpha)

    def unanimous(self, n: int) -> Tally:
        """All n votes for class 0."""
        return Tally((n, 0))


def _check(successes: int, n: int, alpha: float) -> None:
    if n < 1 or not 0 <= successes <= n:
        raise InputError(f"successes must lie between 0 and n >= 1, got {successes} of {n}")
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}")


def _safely(alpha: float, n: int) -> float:
    return alpha * (1 - TAIL_SLACK * (1 + n / 1e5))


def _step(p: float, ulps: int) -> float:
    """p moved by at least so many units in its last place, within [0, 1]."""
    return min(1.0, max(0.0, p + ulps * math.ulp(p)))
