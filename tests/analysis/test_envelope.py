import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.analysis import (
    Results,
    average_certified_radius,
    certified_accuracy,
    largest,
    on_shared_inputs,
    upper_envelope,
)
from smoothcert.core.errors import InputError
from smoothcert.runs import Record

answers = st.lists(st.tuples(st.integers(-1, 2), st.floats(0, 4)), min_size=6, max_size=6)


def results(name: str, given: list[tuple[int, float]], start: int = 0) -> Results:
    records = [
        Record(i, i % 3, prediction, 0.0 if prediction == -1 else radius)
        for i, (prediction, radius) in enumerate(given, start=start)
    ]
    return Results(name, tuple(records))


@given(st.lists(answers, min_size=2, max_size=4), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_the_envelope_dominates_every_member_everywhere(members: list, starts: list[int]) -> None:
    runs = [results(f"run {i}", given, starts[i]) for i, given in enumerate(members)]
    best = upper_envelope(runs)
    common = on_shared_inputs(runs)
    assert best.indices == common[0].indices
    radii = sorted({0.0, *(record.radius for run in common for record in run.records)})
    curve, acr = certified_accuracy(best.records, radii), average_certified_radius(best.records)
    for run in common:
        assert (curve >= certified_accuracy(run.records, radii)).all()
        assert acr >= average_certified_radius(run.records)
    top_acr, top = largest(runs, radii)
    assert acr >= top_acr == max(average_certified_radius(run.records) for run in common)
    assert [share.value for share in top] == [
        max(certified_accuracy(run.records, [r])[0] for run in common) for r in radii
    ]
    assert all(a >= share.value for a, share in zip(curve, top, strict=True))


def test_by_hand() -> None:
    a = results("a", [(0, 0.5), (2, 3.0), (-1, 0.0), (0, 0.1)])
    b = results("b", [(0, 0.4), (1, 0.0), (1, 2.0), (1, 0.7)])
    best = upper_envelope([a, b])
    assert [(r.prediction, r.radius) for r in best.records] == [(0, 0.5), (1, 0.0), (-1, 0.0), (0, 0.1)]
    assert "no classifier does that (a, b)" in str(best.note)
    acr, shares = largest([a, b], [0.0, 0.45])
    assert acr == 0.15
    assert [share.count for share in shares] == [2, 1]


def test_no_envelope_of_one_or_of_different_data() -> None:
    a = results("a", [(0, 0.5)])
    with pytest.raises(InputError, match="at least two results"):
        upper_envelope([a])
    with pytest.raises(InputError, match="no envelope: b has another label"):
        upper_envelope([a, Results("b", (Record(0, 5, 5, 0.5),))])
    with pytest.raises(InputError, match="share no input"):
        upper_envelope([a, results("b", [(0, 0.5)], start=3)])
