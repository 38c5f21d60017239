import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from smoothcert.analysis import Results, asked_up_to, average_certified_radius, certified_accuracy, compare
from smoothcert.analysis.comparison import SignTest, plus
from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.present import comparison_table
from smoothcert.present.comparison_table import p_text
from smoothcert.procedures import Fixed, Procedure, Sequential, converse
from smoothcert.runs import Record
from smoothcert.stats import Tally

rows = st.lists(st.tuples(st.booleans(), st.floats(0, 4)), min_size=1, max_size=30)


def results(name: str, given: list[tuple[bool, float]], **settings: object) -> Results:
    records = tuple(Record(i, 1, int(right), radius) for i, (right, radius) in enumerate(given))
    return Results(name, records, settings=Settings(**settings))


@given(rows)
def test_identical_runs_differ_by_nothing(given_rows: list) -> None:
    got = compare(results("a", given_rows), results("b", given_rows), [0.0, 0.5], resamples=200)
    assert got.acr_difference == 0
    assert (got.acr_interval.low, got.acr_interval.high) == (0.0, 0.0)
    assert got.radii == SignTest(0, 0, len(given_rows))
    assert got.radii.p_value == 1.0
    assert all((at.difference, at.interval.low, at.interval.high) == (0, 0, 0) for at in got.accuracy)


def test_the_verdict_in_words() -> None:
    few, many = [(True, 0.5)] * 29, [(True, 0.5)] * 30
    worse = [(True, 0.25)] * 30
    said = "a has a larger ACR than b on 30 shared inputs, by at least 0.2500 (95% interval of the difference"
    assert compare(results("a", many), results("b", worse)).sentence == f"{said} +0.2500 to +0.2500)."
    assert compare(results("b", worse), results("a", many)).sentence == f"{said} -0.2500 to -0.2500)."
    assert "a and b cannot be told apart" in compare(results("a", many), results("b", many)).sentence
    assert "share 29 inputs, too few for a verdict" in compare(results("a", few), results("b", worse)).sentence


@given(rows, st.floats(0.01, 1))
def test_a_run_that_dominates_wins(given_rows: list, more: float) -> None:
    better = [(True, radius + more) for _, radius in given_rows]
    got = compare(results("a", better), results("b", given_rows), [0.0, 0.5, 4.0], resamples=200)
    assert got.acr_difference > 0
    assert got.acr_interval.low > 0
    assert got.radii == SignTest(len(given_rows), 0, 0)
    assert all(at.only.b == 0 and at.interval.low >= 0 for at in got.accuracy)


@given(rows, rows)
def test_swapping_the_runs_swaps_the_answer(one: list, two: list) -> None:
    n = min(len(one), len(two))
    a, b = results("a", one[:n]), results("b", two[:n])
    there, back = (compare(*pair, [0.0, 0.5], resamples=100) for pair in ((a, b), (b, a)))
    assert there.acr_difference == -back.acr_difference
    assert (there.radii.a, there.radii.b) == (back.radii.b, back.radii.a)
    for x, y in zip(there.accuracy, back.accuracy, strict=True):
        assert x.difference == -y.difference
        assert x.only.p_value == y.only.p_value
    assert there.acr_difference == average_certified_radius(a.records) - average_certified_radius(b.records)
    expected = certified_accuracy(a.records, [0.0, 0.5]) - certified_accuracy(b.records, [0.0, 0.5])
    assert [at.difference for at in there.accuracy] == pytest.approx(expected.tolist())


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (5, 0), (3, 9), (64, 16), (100, 101)])
def test_the_test_is_the_exact_binomial_one(a: int, b: int) -> None:
    exact = stats.binomtest(a, a + b, 0.5).pvalue if a + b else 1.0
    assert SignTest(a, b, 10).p_value == pytest.approx(exact, rel=1e-9)


def test_paired_intervals_cover_and_are_short() -> None:
    # b is right wherever a is and at a radius larger by U(0, 0.2) on the 70% they are right: the difference is -0.07.
    # If the coverage were as low as 0.92 (n = 150), fewer than 169 of 200 would happen with probability 1.4e-4.
    rng = np.random.default_rng(3)
    hits, widths = 0, []
    for seed in range(200):
        right, radii, more = rng.random(150) < 0.7, rng.random(150), 0.2 * rng.random(150)
        a = results("a", [(bool(r), float(x)) for r, x in zip(right, radii, strict=True)])
        b = results("b", [(bool(r), float(x + m)) for r, x, m in zip(right, radii, more, strict=True)])
        interval = compare(a, b, [], seed=seed, resamples=400).acr_interval
        hits += interval.low <= -0.07 <= interval.high
        widths.append(interval.high - interval.low)
    assert hits >= 169
    # an unpaired interval would be 2 * 1.96 * sqrt(2 * 0.11 / 150) = 0.15 wide
    assert np.mean(widths) < 0.04


def test_accuracy_intervals_are_those_of_resampled_inputs() -> None:
    a = results("a", [(i < 60, 1.0) for i in range(100)])
    b = results("b", [(i >= 40, 1.0) for i in range(100)])  # only a: 40, only b: 40
    (at,) = compare(a, b, [0.5], resamples=20_000).accuracy
    assert at.only == SignTest(40, 40, 20)
    # the difference of counts has the deviation sqrt(80): the quantiles are near +-1.96 * sqrt(80) / 100, on a lattice
    half = 1.96 * math.sqrt(80) / 100
    assert at.interval.low == pytest.approx(-half, abs=0.011)
    assert at.interval.high == pytest.approx(half, abs=0.011)


def test_only_shared_inputs_count_and_it_says_so() -> None:
    a = results("a", [(True, 0.5)] * 5)
    got = compare(a, Results("b", a.records[:3]), [0.5])
    assert got.inputs == 3
    assert got.warnings == ("a: only the 3 of its 5 inputs that both cover count",)


def test_what_is_no_comparison_is_refused() -> None:
    a = results("a", [(True, 0.5)] * 3, norm="l2")
    for other, words in [
        (results("b", [(True, 0.5)] * 3, norm="l1"), "of different norms"),
        (Results("b", (Record(0, 4, 4, 0.1),)), "b has another label"),
        (Results("b", (Record(9, 1, 1, 0.1),)), "share no input"),
    ]:
        with pytest.raises(InputError, match=words):
            compare(a, other)
    with pytest.raises(InputError, match="radii must be"):
        compare(a, a, [-1.0])


def test_json_is_plain_and_seeded() -> None:
    a, b = results("a", [(True, i / 10) for i in range(20)]), results("b", [(i % 3 > 0, 0.5) for i in range(20)])
    one, two = (json.dumps(compare(a, b, seed=seed).to_json(), allow_nan=False) for seed in (0, 0))
    assert one == two
    assert compare(a, b, seed=1) != compare(a, b, seed=2)


def test_the_table_rounds_differences_towards_nothing_and_intervals_outwards() -> None:
    assert (plus("0.5"), plus("-0.5"), plus("-0.0"), plus("0.0000")) == ("+0.5", "-0.5", "0.0", "0.0000")
    assert (p_text(0.00009), p_text(0.0001), p_text(0.03131), p_text(1.0)) == ("<0.0001", "0.0001", "0.0314", "1.0000")
    a = results("a", [(i < 2, 0.29) for i in range(3)])
    b = results("b", [(i < 1, 0.29) for i in range(3)])
    table = comparison_table(compare(a, b, [0.1]))
    cells = [list(map(str, table.names)), *(list(map(str, column.cells)) for column in table.columns)]
    assert cells[0] == ["ACR", "% at 0.1"]
    assert cells[1] == ["0.1933", "66.6"]
    assert cells[2] == ["0.0966", "33.3"]
    assert cells[3] == ["+0.0966", "+33.3"]
    assert cells[6:] == [["1", "1"], ["0", "0"], ["1.0000", "1.0000"]]


def test_notes_are_said_once() -> None:
    a, b = results("a", [(True, 0.5)], note="rounded"), results("b", [(True, 0.5)], note="rounded")
    assert compare(a, b).notes == ("rounded",)
    assert compare(a, results("b", [(True, 0.5)])).notes == ("a: rounded",)


def decided(name: str, *radii: float, sigma: float = 0.25) -> Results:
    """Forty inputs with all votes for the right class, asked about these radii; none: the largest is looked for."""
    procedure: Procedure = Sequential(radius=radii, n=10_000) if radii else Fixed(n=10_000)
    made = converse(procedure.certify(Gaussian(sigma)), lambda ask: Tally((ask.n, 0)))
    return Results(name, tuple(Record.of(i, 0, made, 0.1) for i in range(40)))


def test_what_was_not_asked_is_not_compared() -> None:
    assert (asked_up_to(decided("a", 0.25, 0.5).records), asked_up_to(decided("b").records)) == (0.5, math.inf)
    got = compare(decided("a", 0.25, 0.5), decided("b"), [0.25, 0.5, 0.75])
    assert [at.radius for at in got.accuracy] == [0.25, 0.5]
    assert got.warnings == ("a: it was not asked about radii beyond 0.5, so 0.75 cannot be compared",)
    assert not got.same_question
    assert "cannot be compared by their ACR: they were asked about other radii" in got.sentence
    assert got.acr_interval.high < 0, "though the numbers alone would say that b is better"
    same = compare(decided("a", 0.25, 0.5), decided("b", 0.25, 0.5, sigma=0.5))
    assert same.same_question
    assert same.warnings == ()
    assert [at.radius for at in same.accuracy] == [0, 0.25, 0.5]
