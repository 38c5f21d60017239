"""Clopper-Pearson and the top-two test, against exact rational arithmetic: no Monte Carlo."""

import math
from fractions import Fraction

import mpmath
import pytest
from scipy import stats

from smoothcert.core.errors import InputError
from smoothcert.stats import lower_bound, top_two_p_value, upper_bound

ALPHAS = [0.1, 0.05, 0.001, 1e-6]


def tail(n: int, k: int, p: Fraction) -> Fraction:
    """P(Binomial(n, p) >= k), exactly."""
    return sum((math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)), Fraction(0))


def long_tail(n: int, k: int, p: mpmath.mpf) -> mpmath.mpf:
    """P(Binomial(n, p) >= k) to 50 digits, summed upwards from k until the rest cannot matter."""
    term = mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k)
    total = term
    for i in range(k, n):
        term *= (n - i) * p / ((i + 1) * (1 - p))
        total += term
        if term < total * mpmath.mpf("1e-50") and i > n * p:
            break
    return total


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [*range(1, 16), 30, 60])
def test_coverage_by_enumeration(n: int, alpha: float) -> None:
    """Exact: the bound misses p iff X >= k for the smallest k with lower(k) > p, so the worst p sit at the bounds."""
    for k in range(n + 1):
        low, high = lower_bound(k, n, alpha), upper_bound(k, n, alpha)
        assert tail(n, k, Fraction(low)) <= Fraction(alpha) or k == 0
        assert 1 - tail(n, k + 1, Fraction(high)) <= Fraction(alpha) or k == n
        # ... and they are tight: one part in 1e11 further and they would miss.
        if k > 0:
            assert tail(n, k, Fraction(low) * (1 + Fraction(1, 10**11))) > Fraction(alpha)
        if k < n:
            assert 1 - tail(n, k + 1, Fraction(high) * (1 - Fraction(1, 10**11))) > Fraction(alpha)
        assert low <= k / n <= high


@pytest.mark.parametrize(
    ("k", "n"), [(100_000, 100_000), (99_990, 100_000), (50_300, 100_000), (999_999, 10**6), (3, 10**5)]
)
@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-9])
def test_directed_rounding_at_large_n(k: int, n: int, alpha: float) -> None:
    """Against 60 digits: never on the wrong side, and within 1e-10 of the right value."""
    mpmath.mp.dps = 60
    low, high = mpmath.mpf(lower_bound(k, n, alpha)), mpmath.mpf(upper_bound(k, n, alpha))
    assert long_tail(n, k, low) <= alpha
    assert long_tail(n, k, low * (1 + mpmath.mpf("1e-10"))) > alpha
    if k < n:
        assert long_tail(n, n - k, 1 - high) <= alpha  # P(X <= k) by exchanging successes and failures
        assert long_tail(n, n - k, 1 - high * (1 - mpmath.mpf("1e-10"))) > alpha


def test_known_values() -> None:
    # All votes agree: alpha^(1/n), 3.811 sigma at n = 1e5 (Cohen et al. 2019, section 3.2.2).
    assert lower_bound(100_000, 100_000, 0.001) == pytest.approx(0.001 ** (1 / 100_000), rel=1e-14)
    assert stats.norm.ppf(lower_bound(100_000, 100_000, 0.001)) == pytest.approx(3.811, abs=5e-4)
    assert lower_bound(0, 10, 0.05) == 0.0
    assert upper_bound(10, 10, 0.05) == 1.0


@pytest.mark.parametrize("n", [1, 2, 5, 11, 24, 60])
def test_top_two_test_by_enumeration(n: int) -> None:
    """The p-value is exact: twice the tail at 1/2, and at level alpha it rejects with probability at most alpha."""
    half = Fraction(1, 2)
    for k in range(n + 1):
        exact = min(Fraction(1), 2 * tail(n, max(k, n - k), half))
        assert exact <= Fraction(top_two_p_value(k, n - k)) <= exact * (1 + Fraction(1, 10**11))
        assert top_two_p_value(k, n - k) == top_two_p_value(n - k, k)
    for alpha in ALPHAS:
        rejected = [k for k in range(n + 1) if top_two_p_value(k, n - k) <= alpha]
        assert sum((math.comb(n, k) * half**n for k in rejected), Fraction(0)) <= Fraction(alpha)


def test_top_two_test_is_rounded_up_at_many_votes() -> None:
    with mpmath.workdps(50):
        exact = 2 * long_tail(10**8, 50_030_000, mpmath.mpf(0.5))
        assert exact <= top_two_p_value(50_030_000, 49_970_000) <= exact * (1 + mpmath.mpf("2e-9"))


@pytest.mark.parametrize(
    ("k", "n", "alpha", "words"),
    [(5, 4, 0.1, "between 0 and n"), (-1, 4, 0.1, "between 0 and n"), (0, 0, 0.1, "n >= 1"), (1, 2, 0.0, "alpha"),
     (1, 2, 1.0, "alpha"), (1, 2, math.nan, "alpha")],
)  # fmt: skip
def test_refusals(k: int, n: int, alpha: float, words: str) -> None:
    for bound in (lower_bound, upper_bound):
        with pytest.raises(InputError, match=words):
            bound(k, n, alpha)
    with pytest.raises(InputError, match="negative"):
        top_two_p_value(-1, 3)
