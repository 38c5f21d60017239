"""The exact sequential test: its size and power by its own dynamic programme, by brute force, and by simulation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from smoothcert.core.errors import InputError
from smoothcert.procedures import Sequential
from smoothcert.stats.failure_law import fixed_boundary
from smoothcert.stats.group_sequential import Boundaries, boundaries, operating_characteristics

P0S = [float(stats.norm.cdf(r)) for r in (0.1, 0.5, 1.0, 2.0, 3.0)]


def table(p0: float, n: int = 10_000, alpha: float = 0.001, beta: float = 0.001) -> Boundaries:
    return boundaries((p0,), n, alpha, beta)[0]


@pytest.mark.parametrize("p0", P0S)
@pytest.mark.parametrize("n", [50, 1_000, 10_000, 100_000])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-6])
def test_size_is_at_most_alpha(p0: float, n: int, alpha: float) -> None:
    """A false certificate at the worst p <= p0, exactly. Giving up early can only lower it."""
    made = table(p0, n, alpha)
    never_give_up = Boundaries(p0, made.looks, made.certify, tuple(look + 1 for look in made.looks), made.size)
    exact, _ = operating_characteristics(never_give_up, p0)
    assert exact == pytest.approx(made.size, rel=1e-9)
    assert exact <= alpha
    assert operating_characteristics(made, p0)[0] <= exact * (1 + 1e-12)
    if n >= 10_000 and alpha > 1e-6 and p0 < 0.99:
        assert exact > 0.9 * alpha, "alpha is used"


@pytest.mark.parametrize("p0", P0S)
def test_certifying_grows_with_p(p0: float) -> None:
    made = table(p0)
    ps = np.linspace(p0 - 0.1 * (1 - p0), 1 - 1e-9, 25)
    powers = [operating_characteristics(made, float(p))[0] for p in ps]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(powers))
    assert all(power <= 0.001 for p, power in zip(ps, powers, strict=True) if p <= p0)
    assert powers[-1] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("p0", P0S)
@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
def test_power_is_that_of_fixed_n_within_a_thousandth(p0: float, n: int) -> None:
    made, most = table(p0, n), fixed_boundary(n, p0, 0.001)
    deviation = (p0 * (1 - p0) / n) ** 0.5
    for z in np.linspace(-1, 8, 73):
        p = p0 + z * deviation
        if p < 1:
            assert operating_characteristics(made, p)[0] >= stats.binom.cdf(most, n, 1 - p) - 0.001


@pytest.mark.parametrize(
    ("p0", "n", "alpha", "beta", "at_least", "at_most"),
    [
        (0.80675004322, 49_115, 0.05, 0.001, 1.3e-3, 1.5e-3),  # "the largest loss is 1.5e-3"
        (0.95465342510, 6_657, 0.01, 1e-5, 9e-4, 1.1e-3),  # one of those beyond 8e-4
        (0.9332, 3_000, 0.001, 0.001, 4e-4, 8e-4),  # one of those within
        (0.55245034838, 2_586, 0.05, 0.01, 5e-3, 6.1e-3),  # "with beta = .01 the loss reaches .0061"
    ],
)
def test_power_is_lost_as_the_docstrings_say(
    p0: float, n: int, alpha: float, beta: float, at_least: float, at_most: float
) -> None:
    """8e-4 is what the last look aims at, not a bound: what is claimed is what was computed (benchmarks/power.py)."""
    made, most = table(p0, n, alpha, beta), fixed_boundary(n, p0, alpha)
    ps = [p for z in np.linspace(0, 8, 81) if (p := p0 + z * (p0 * (1 - p0) / n) ** 0.5) < 1]
    lost = max(stats.binom.cdf(most, n, 1 - p) - operating_characteristics(made, p)[0] for p in ps)
    assert at_least <= lost <= at_most
    for text in (Sequential.__doc__, boundaries.__doc__):
        assert all(number in str(text) for number in ("15 of 100 random settings", "1.5e-3", "8e-4", ".0061"))


def test_dynamic_programme_against_brute_force() -> None:
    """Every sequence of votes of a small test, in exact fractions."""
    made = Boundaries(0.7, (4, 8, 12), (-1, 0, 2), (4, 5, 3), 1.0)
    for p in (0.7, 0.9):
        certified, draws = Fraction(0), Fraction(0)
        for votes in itertools.product([0, 1], repeat=12):
            weight = Fraction(p) ** (12 - sum(votes)) * (1 - Fraction(p)) ** sum(votes)
            for look, a, b in zip(made.looks, made.certify, made.give_up, strict=True):
                failures = sum(votes[:look])
                if failures <= a or failures >= b or look == 12:
                    certified += weight * (failures <= a)
                    draws += weight * look
                    break
        power, expected = operating_characteristics(made, p)
        assert power == pytest.approx(float(certified), rel=1e-12)
        assert expected == pytest.approx(float(draws), rel=1e-12)


@pytest.mark.parametrize("p0", [P0S[2], P0S[3]])
def test_size_by_simulation(p0: float) -> None:
    """20_000 walks at p0, alpha = .05: false certificates within the binomial tail, and not far below."""
    made, rng = table(p0, 2_000, 0.05, 0.05), np.random.default_rng(0)
    steps = np.diff([0, *made.looks])
    failures = np.cumsum(rng.binomial(steps, 1 - p0, size=(20_000, len(steps))), axis=1)
    crossed = failures <= np.array(made.certify)
    stopped = failures >= np.array(made.give_up)
    when = np.where(crossed.any(1), crossed.argmax(1), len(steps))
    gave_up = np.where(stopped.any(1), stopped.argmax(1), len(steps))
    wrong = int((when < gave_up).sum())
    exact, _ = operating_characteristics(made, p0)
    assert stats.binom.sf(wrong - 1, 20_000, 0.05) > 1e-6
    assert abs(wrong - 20_000 * exact) < 5 * (20_000 * exact) ** 0.5


@pytest.mark.parametrize("n", [1_000, 100_000])
def test_nested_radii_share_one_alpha(n: int) -> None:
    """Just below each p0, the event "some radius is certified that should not be" has probability at most alpha."""
    p0s = tuple(float(stats.norm.cdf(r)) for r in (0.5, 1.0, 1.5, 2.0))
    tables = boundaries(p0s, n, 0.001, 0.001)
    assert len({made.looks for made in tables}) == 1
    for smaller, larger in itertools.pairwise(tables):
        assert all(a >= b for a, b in zip(smaller.certify, larger.certify, strict=True))
        assert all(a >= b for a, b in zip(smaller.give_up, larger.give_up, strict=True))
    for made in tables:
        everything = Boundaries(made.p0, made.looks, made.certify, tuple(look + 1 for look in made.looks), made.size)
        assert operating_characteristics(everything, made.p0)[0] <= 0.001
        most, deviation = fixed_boundary(n, made.p0, 0.001), (made.p0 * (1 - made.p0) / n) ** 0.5
        for z in np.linspace(0, 8, 17):
            p = made.p0 + z * deviation
            if p < 1:
                assert operating_characteristics(made, p)[0] >= stats.binom.cdf(most, n, 1 - p) - 0.001


def test_refusals() -> None:
    for p0s in [(), (0.0,), (1.0,), (0.9, 0.8), (0.8, 0.8)]:
        with pytest.raises(InputError, match="p0s must ascend"):
            boundaries(p0s, 100, 0.001, 0.001)
