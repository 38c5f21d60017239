import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.analysis import (
    Results,
    average_certified_radius,
    certified_accuracy,
    on_shared_inputs,
    oracle,
    summarise,
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
def test_the_oracle_dominates_every_member_everywhere(members: list, starts: list[int]) -> None:
    runs = [results(f"run {i}", given, starts[i]) for i, given in enumerate(members)]
    best = oracle(runs)
    common = on_shared_inputs(runs)
    assert best.indices == common[0].indices
    radii = sorted({0.0, *(record.radius for run in common for record in run.records)})
    curve, acr = certified_accuracy(best.records, radii), average_certified_radius(best.records)
    for run in common:
        assert (curve >= certified_accuracy(run.records, radii)).all()
        assert acr >= average_certified_radius(run.records)
    envelope = upper_envelope(common, radii)
    assert acr >= envelope.acr == max(average_certified_radius(run.records) for run in common)
    top = [share.value for share in envelope.accuracy if share is not None]
    assert top == [max(certified_accuracy(run.records, [r])[0] for run in common) for r in radii]
    assert all(a >= value for a, value in zip(curve, top, strict=True))


def test_by_hand() -> None:
    a = results("a", [(0, 0.5), (2, 3.0), (-1, 0.0), (0, 0.1)])
    b = results("b", [(0, 0.4), (1, 0.0), (1, 2.0), (1, 0.7)])
    best = oracle([a, b])
    assert [(r.prediction, r.radius) for r in best.records] == [(0, 0.5), (1, 0.0), (-1, 0.0), (0, 0.1)]
    assert best.name == "oracle (best of each input)"
    assert "no classifier does that (a, b)" in str(best.note)
    envelope = upper_envelope([a, b], [0.0, 0.45])
    assert (envelope.acr, envelope.acr_of) == (0.15, "a"), "(0.5 + 0.1) / 4 and not (0.5 + 0 + 0 + 0.1) / 4 of a choice"
    assert [share.count for share in envelope.accuracy if share is not None] == [2, 1]
    assert envelope.accuracy_of == ("a", "a")


def test_the_envelope_takes_each_number_from_one_member_and_no_input_from_another() -> None:
    """Each is right where the other is wrong: an oracle has both, the largest number has one."""
    a = results("a", [(0, 1.0), (0, 1.0), (0, 1.0)])  # labels 0, 1, 2
    b = results("b", [(1, 1.0), (1, 2.0), (1, 1.0)])
    summary = summarise([a, b, oracle([a, b])], [0.0, 1.5], envelope=True)
    assert summary.envelope is not None
    assert (summary.envelope.acr, summary.envelope.acr_of) == (2 / 3, "b")
    assert [share.count for share in summary.envelope.accuracy if share is not None] == [1, 1], "of the members alone"
    assert summary.rows[2].acr == 1.0
    assert summary.to_json()["envelope"]["accuracy"][1] == {"radius": 1.5, "value": 1 / 3, "of": "b"}


def test_no_envelope_of_one_or_of_different_data() -> None:
    a = results("a", [(0, 0.5)])
    for best, word in ((oracle, "oracle"), (lambda some: upper_envelope(some, [0.0]), "envelope")):
        with pytest.raises(InputError, match="at least two results"):
            best([a])
        with pytest.raises(InputError, match=f"no {word}: b has another label"):
            best([a, Results("b", (Record(0, 5, 5, 0.5),))])
    with pytest.raises(InputError, match="share no input"):
        oracle([a, results("b", [(0, 0.5)], start=3)])
    with pytest.raises(InputError, match=r"cover different inputs .* compare them with --shared"):
        upper_envelope([a, results("b", [(0, 0.5), (1, 0.5)])], [0.0])
