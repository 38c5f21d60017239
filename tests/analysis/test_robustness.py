import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.analysis import (
    at_least,
    average_certified_radius,
    certified_accuracy,
    log_ball_volume,
    log_mean_volume,
    per_class,
    robustness_index,
)
from smoothcert.core.errors import InputError
from smoothcert.runs import Record

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
VOLUMES = {1: lambda r: 2 * r, 2: lambda r: math.pi * r**2, 3: lambda r: 4 / 3 * math.pi * r**3}


@given(some_records, st.floats(0, 4) | st.sampled_from([0.0, 0.25, 0.5]))
def test_accuracy_and_acr_are_robustness_indices(records: list[Record], radius: float) -> None:
    # proposition 1 of Liu et al. 2021, at R = 0 too
    assert robustness_index(records, at_least(radius)) == certified_accuracy(records, [radius])[0]
    assert robustness_index(records, lambda r: r) == average_certified_radius(records)


@given(some_records, st.sampled_from([1, 2, 3]))
def test_log_volume_is_the_direct_one_in_low_dimension(records: list[Record], dim: int) -> None:
    direct = robustness_index(records, VOLUMES[dim])
    if direct > 1e-290:  # below, the direct one loses its digits
        assert log_mean_volume(records, dim) == pytest.approx(math.log(direct), rel=1e-9, abs=1e-9)
    elif all(record.radius == 0 or not record.correct for record in records):
        assert log_mean_volume(records, dim) == -math.inf


def test_volumes_beyond_float64() -> None:
    # the volume of a ball of d = 3072 is 1e-3466 for r = 1: pi^1536 / 1536!
    exact = 1536 * math.log(math.pi) - math.log(math.factorial(1536))
    assert log_ball_volume(1.0, 3072) == pytest.approx(exact, rel=1e-13)
    records = [Record(0, 1, 1, 1.0), Record(1, 1, 1, 0.5), Record(2, 1, 0, 9.0), Record(3, 1, -1, 0.0)]
    # half the radius is 2^-3072 of the volume; four inputs
    assert log_mean_volume(records, 3072) == pytest.approx(exact - math.log(4), rel=1e-13)
    assert log_mean_volume(records[1:], 3072) == pytest.approx(exact - 3072 * math.log(2) - math.log(3), rel=1e-13)


@given(some_records, st.lists(st.floats(0, 4), max_size=4))
def test_classes_add_up_to_the_whole(records: list[Record], radii: list[float]) -> None:
    rows = per_class(records, radii)
    assert [row.label for row in rows] == sorted({record.label for record in records})
    assert sum(row.inputs for row in rows) == len(records)
    whole = certified_accuracy(records, radii)
    for i, share in enumerate(whole):
        assert sum(row.accuracy[i].count for row in rows) / len(records) == share
    mean = sum(row.acr * row.inputs for row in rows) / len(records)
    assert mean == pytest.approx(average_certified_radius(records), rel=1e-12, abs=1e-12)


def test_per_class_by_hand() -> None:
    records = [Record(0, 7, 7, 0.5), Record(1, 7, 2, 3.0), Record(2, 2, 2, 0.25)]
    two, seven = per_class(records, [0.3])
    assert (two.label, two.inputs, two.acr, two.accuracy[0].count) == (2, 1, 0.25, 0)
    assert (seven.label, seven.inputs, seven.acr, seven.accuracy[0].count) == (7, 2, 0.25, 1)
    assert seven.to_json([0.3])["accuracy"][0]["radius"] == 0.3


def test_what_is_not_defined_is_refused() -> None:
    one = [Record(0, 1, 1, 0.5)]
    for value in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="gamma must map"):
            robustness_index(one, lambda r, value=value: value)
    for dim in (0, 2.5, True):
        with pytest.raises(InputError, match="dim must be"):
            log_mean_volume(one, dim)  # type: ignore[arg-type]
    for measure in (lambda r: robustness_index(r, float), lambda r: log_mean_volume(r, 2), lambda r: per_class(r, [0])):
        with pytest.raises(InputError, match="at least one record"):
            measure([])
