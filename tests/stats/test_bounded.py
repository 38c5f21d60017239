"""Hoeffding and empirical Bernstein: coverage by exact enumeration, constants by hand."""

import itertools
import math
from fractions import Fraction

import pytest

from smoothcert.core.errors import InputError
from smoothcert.stats import EmpiricalBernstein, Hoeffding, Tally
from smoothcert.stats.bounded import SoftBound
from smoothcert.stats.tally import SCORE_UNIT

UNIT = round(1 / SCORE_UNIT)
BOUNDS = [Hoeffding(), EmpiricalBernstein()]


def tally(scores: dict[float, int]) -> Tally:
    """A tally of two classes: class 0 has each score so many times, class 1 the rest of one."""
    n = sum(scores.values())
    units = {round(s * UNIT): count for s, count in scores.items()}
    sums = sum(u * count for u, count in units.items())
    squares = sum(u * u * count for u, count in units.items())
    other = sum((UNIT - u) ** 2 * count for u, count in units.items())
    return Tally((n, 0), (sums, n * UNIT - sums), (squares, other))


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b.name)
@pytest.mark.parametrize("alpha", [0.1, 0.01])
@pytest.mark.parametrize("n", [2, 10, 30, 60])
def test_coverage_of_two_valued_scores(bound: SoftBound, n: int, alpha: float) -> None:
    """Scores 0 and 1 with probability p: the probability of a miss, summed exactly over all outcomes."""
    for p in [Fraction(i, 40) for i in range(41)]:
        low = high = Fraction(0)
        for k in range(n + 1):
            mass = math.comb(n, k) * p**k * (1 - p) ** (n - k)
            seen = tally({1.0: k, 0.0: n - k})
            low += mass * (bound.lower(seen, 0, alpha) > p)
            high += mass * (bound.upper(seen, 0, alpha) < p)
        assert low <= Fraction(alpha)
        assert high <= Fraction(alpha)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b.name)
def test_coverage_of_three_valued_scores(bound: SoftBound) -> None:
    n, alpha = 16, 0.05
    for p, q in itertools.product([Fraction(i, 6) for i in range(7)], repeat=2):
        if p + q > 1:
            continue
        mean, missed = p + q / 2, Fraction(0)
        for i in range(n + 1):
            for j in range(n + 1 - i):
                ways = math.comb(n, i) * math.comb(n - i, j)
                mass = ways * p**i * q**j * (1 - p - q) ** (n - i - j)
                missed += mass * (bound.lower(tally({1.0: i, 0.5: j, 0.0: n - i - j}), 0, alpha) > mean)
        assert missed <= Fraction(alpha)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b.name)
def test_upper_bound_gives_back_what_rounding_down_took(bound: SoftBound) -> None:
    """Scores just below a whole unit lose almost all of one: the bound less its margin is still the true mean."""
    true, units, n = Fraction(UNIT, 2) - Fraction(1, 1000), UNIT // 2 - 1, 1000
    seen = Tally((n, 0), (n * units, n * (UNIT - units)), (n * units**2, n * (UNIT - units) ** 2))
    assert Fraction(bound.upper(seen, 0, 0.01) - bound.margin(seen, 0, 0.01)) >= true / UNIT


def test_constants_by_hand() -> None:
    seen = tally({1.0: 90, 0.5: 10})  # mean .95, S^2 = (90 + 2.5 - 100 * .9025)/99 = 2.25/99
    assert Hoeffding().lower(seen, 0, 0.001) == pytest.approx(0.95 - math.sqrt(math.log(1000) / 200), abs=1e-12)
    margin = math.sqrt(2 * 2.25 / 99 * math.log(2000) / 100) + 7 * math.log(2000) / (3 * 99)
    assert EmpiricalBernstein().lower(seen, 0, 0.001) == pytest.approx(0.95 - margin, abs=1e-12)
    assert EmpiricalBernstein().top(seen) == 0


def test_refusals() -> None:
    with pytest.raises(InputError, match="kept its scores"):
        Hoeffding().lower(Tally((3, 4)), 0, 0.1)
    with pytest.raises(InputError, match="inverse_temperature"):
        Hoeffding(-1.0)
