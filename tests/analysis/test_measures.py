import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothcert.analysis import (
    Interval,
    Share,
    abstention_rate,
    acr_interval,
    average_certified_radius,
    certified_accuracy,
    certified_shares,
    mean_draws,
    mean_interval,
    mean_seconds,
    share_interval,
)
from smoothcert.core.errors import InputError
from smoothcert.runs import Record

# right at 0.5, wrong at 2, abstained, right at 0.25, right at 0
FIVE = [
    Record(0, label=3, prediction=3, radius=0.5, draws=100, seconds=1.0),
    Record(1, label=3, prediction=4, radius=2.0, draws=100, seconds=2.0),
    Record(2, label=3, prediction=-1, radius=0.0, draws=50, seconds=0.5),
    Record(3, label=0, prediction=0, radius=0.25, draws=100, seconds=1.5),
    Record(4, label=0, prediction=0, radius=0.0, draws=150, seconds=0.0),
]

some_records = st.lists(
    st.builds(
        Record,
        index=st.integers(0, 10**6),
        label=st.integers(0, 2),
        prediction=st.integers(-1, 2),
        radius=st.floats(0, 4) | st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=40,
)


def test_certified_accuracy_by_hand() -> None:
    got = certified_accuracy(FIVE, [0, 0.25, 0.250001, 0.5, 0.6, 2])
    assert got.tolist() == [0.6, 0.4, 0.2, 0.2, 0.0, 0.0]
    assert got.dtype == np.float64


def test_acr_by_hand() -> None:
    assert average_certified_radius(FIVE) == 0.15  # (0.5 + 0.25) / 5
    assert average_certified_radius(FIVE[1:3]) == 0.0


def test_costs_and_abstentions_by_hand() -> None:
    assert abstention_rate(FIVE) == 0.2
    assert mean_draws(FIVE) == 100.0
    assert mean_seconds(FIVE) == 1.0
    unknown = [*FIVE, Record(5, 0, 0, 0.1)]
    assert mean_draws(unknown) is None
    assert mean_seconds(unknown) is None


def test_an_abstention_is_wrong_whatever_its_radius_and_label() -> None:
    odd = [Record(0, label=-1, prediction=-1, radius=3.0), Record(1, label=1, prediction=1, radius=1.0)]
    assert certified_accuracy(odd, [0, 2]).tolist() == [0.5, 0.0]
    assert average_certified_radius(odd) == 0.5


@given(some_records)
def test_acr_is_the_area_under_the_curve(records: list[Record]) -> None:
    corners = sorted({0.0, *(record.radius for record in records)})
    accuracy = certified_accuracy(records, corners)
    area = math.fsum((b - a) * accuracy[i + 1] for i, (a, b) in enumerate(pairwise(corners)))
    assert average_certified_radius(records) == pytest.approx(area, rel=1e-12, abs=1e-12)


@given(some_records, st.lists(st.floats(0, 5), min_size=2))
def test_the_curve_never_rises_and_starts_at_the_share_of_right_answers(
    records: list[Record], radii: list[float]
) -> None:
    accuracy = certified_accuracy(records, sorted(radii))
    assert (np.diff(accuracy) <= 0).all()
    right = sum(r.prediction == r.label for r in records)
    assert certified_accuracy(records, [0]).tolist() == [right / len(records)]


@given(some_records, st.randoms(use_true_random=False), st.integers(0, 5))
def test_order_does_not_matter(records: list[Record], random: object, seed: int) -> None:
    other = list(records)
    random.shuffle(other)  # type: ignore[attr-defined]
    assert average_certified_radius(records) == average_certified_radius(other)
    assert acr_interval(records, seed=seed, resamples=50) == acr_interval(other, seed=seed, resamples=50)


def test_clopper_pearson_constants() -> None:
    # 374 of 500: scipy.stats.binomtest(374, 500).proportion_ci(0.95, "exact")
    exact = stats.binomtest(374, 500).proportion_ci(0.95, "exact")
    got = Share(374, 500).interval
    assert got.low == pytest.approx(exact.low, abs=1e-12)
    assert got.high == pytest.approx(exact.high, abs=1e-12)
    # nothing of n: 1 - (alpha/2)^(1/n), the closed form
    assert share_interval(0, 500) == Interval(0.0, pytest.approx(1 - 0.025 ** (1 / 500), rel=1e-12))
    assert share_interval(7, 7) == Interval(pytest.approx(0.025 ** (1 / 7), rel=1e-12), 1.0)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5, 0.77, 0.95, 0.999])
def test_share_intervals_cover_by_enumeration(p: float) -> None:
    n = 25
    intervals = [share_interval(k, n) for k in range(n + 1)]
    covered = sum(stats.binom.pmf(k, n, p) for k, i in enumerate(intervals) if i.low <= p <= i.high)
    assert covered >= 0.95


def test_acr_intervals_cover() -> None:
    # 70% right with radii uniform on [0, 1]: the true ACR is 0.35. If the coverage were as low as 0.93 (the bootstrap
    # is a little short at n = 200), fewer than 264 of 300 would happen with probability 6.3e-4.
    rng = np.random.default_rng(1)
    hits = 0
    for seed in range(300):
        right, radii = rng.random(200) < 0.7, rng.random(200)
        records = [Record(i, 1, int(r), float(x)) for i, (r, x) in enumerate(zip(right, radii, strict=True))]
        interval = acr_interval(records, seed=seed, resamples=400)
        hits += interval.low <= 0.35 <= interval.high
    assert hits >= 264


def test_acr_interval_is_seeded_and_near_the_normal_one() -> None:
    rng = np.random.default_rng(2)
    radii = rng.random(1000)
    records = [Record(i, 1, 1, float(x)) for i, x in enumerate(radii)]
    a, b, c = (acr_interval(records, seed=seed) for seed in (0, 0, 1))
    assert a == b != c
    half = 1.96 * radii.std() / math.sqrt(1000)
    # the 2.5% quantile of 2000 normal means has a standard error of 0.06 of their deviation, i.e. of 0.03 of `half`
    assert a.low == pytest.approx(radii.mean() - half, abs=0.15 * half)
    assert a.high == pytest.approx(radii.mean() + half, abs=0.15 * half)


def test_blocks_of_the_bootstrap_join(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(i, 1, 1, i / 10) for i in range(10)]
    whole = acr_interval(records, seed=3, resamples=500)
    monkeypatch.setattr("smoothcert.analysis.measures.BLOCK", 64)  # 6 rows at a time
    parts = acr_interval(records, seed=3, resamples=500)
    assert parts.low == pytest.approx(whole.low, abs=0.1)
    assert parts.high == pytest.approx(whole.high, abs=0.1)


def test_nothing_is_refused() -> None:
    for measure in (average_certified_radius, abstention_rate, mean_draws, mean_seconds):
        with pytest.raises(InputError, match="at least one record"):
            measure([])
    with pytest.raises(InputError, match="at least one record"):
        certified_accuracy([], [0.5])
    with pytest.raises(InputError, match="at least one record"):
        acr_interval([], seed=0)
    with pytest.raises(InputError, match="at least one number"):
        mean_interval([], seed=0)


@pytest.mark.parametrize("radius", [-0.1, math.nan, math.inf])
def test_impossible_radii_are_refused(radius: float) -> None:
    with pytest.raises(InputError, match="radii must be non-negative"):
        certified_shares(FIVE, [0.0, radius])


def test_impossible_bootstrap_is_refused() -> None:
    with pytest.raises(InputError, match="resamples"):
        acr_interval(FIVE, seed=0, resamples=0)
