import io
import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import smoothcert as sc
from smoothcert.analysis import Results, Settings, compare, read, summarise, usual_radii
from smoothcert.core.errors import InputError
from smoothcert.present import comparison_table, markdown, rich_table
from smoothcert.runs import Record
from smoothcert.stats.rounding import down, percent, up


def of_radii(*radii: float, name: str = "a", **settings) -> Results:
    return Results(name, tuple(Record(i, 1, 1, r) for i, r in enumerate(radii)), settings=Settings(**settings))


def rendered(summary, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(rich_table(summary))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("share", "printed"),
    [
        (0.7489, "74.8"),
        (0.7499999, "74.9"),
        (0.75, "75.0"),
        (math.nextafter(0.75, 0), "74.9"),
        (0.29, "29.0"),
        (0.57, "57.0"),
        (0.001, "0.1"),
        (0.0009999, "0.0"),
        (1.0, "100.0"),
        (0.9999999, "99.9"),
        (0.0, "0.0"),
    ],
)
def test_shares_are_printed_rounded_down(share: float, printed: str) -> None:
    assert percent(share) == printed


@pytest.mark.parametrize(
    ("value", "printed"), [(0.42897, "0.4289"), (0.29, "0.2900"), (1.1, "1.1000"), (1e-9, "0.0000")]
)
def test_radii_are_printed_rounded_down(value: float, printed: str) -> None:
    assert down(value, 4) == printed


def test_upper_ends_are_rounded_up() -> None:
    assert up(0.42891, 4) == "0.4290"
    assert up(0.29, 4) == "0.2900"
    assert percent(0.7501, ceiling=True) == "75.1"
    assert percent(0.75, ceiling=True) == "75.0"
    assert percent(1.0, ceiling=True) == "100.0"


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_printed_share_is_the_exact_floor_of_the_fraction(share: tuple[int, int]) -> None:
    count, total = share
    tenths = 1000 * count // total  # in integers: no float noise
    assert percent(count / total) == f"{tenths // 10}.{tenths % 10}"
    assert percent(count / total, ceiling=True) == f"{-(-1000 * count // total) / 10:.1f}"


@given(st.floats(0, 1e9), st.integers(0, 6))
def test_printed_values_enclose_the_value(value: float, digits: int) -> None:
    assert float(down(value, digits)) <= value <= float(up(value, digits))


@pytest.mark.parametrize(
    ("largest", "radii"),
    [
        (0.0, [0]),
        (0.978, [0, 0.25, 0.5, 0.75]),
        (1.0, [0, 0.25, 0.5, 0.75, 1.0]),
        (1.999, [0.25 * i for i in range(8)]),
        (2.1, [0, 0.5, 1, 1.5, 2]),
        (3.811, [0.5 * i for i in range(8)]),
        (0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
        (0.0157, [0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.014]),
        (9.5, [0, 2, 4, 6, 8]),
        (250.5, [0, 50, 100, 150, 200, 250]),
    ],
)
def test_radii_are_chosen_like_the_papers(largest: float, radii: list[float]) -> None:
    assert list(usual_radii([of_radii(0.01 if largest > 0.02 else 0.0, largest)])) == radii


def test_whole_radii_get_whole_columns() -> None:
    assert usual_radii([of_radii(1.0, 3.0, 2.0)]) == (0, 1, 2, 3)
    assert usual_radii([of_radii(1.0, 8.0)]) == (0, 2, 4, 6, 8)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=5))
def test_chosen_radii_are_few_and_reached(radii: list[float]) -> None:
    chosen = usual_radii([of_radii(*radii)])
    assert 1 <= len(chosen) <= 8
    assert chosen[0] == 0
    assert chosen[-1] <= max(radii)
    assert list(chosen) == sorted(set(chosen))


def test_wrong_answers_do_not_widen_the_table() -> None:
    assert usual_radii([Results("a", (Record(0, 1, 2, 9.0), Record(1, 1, 1, 0.5)))]) == (0, 0.25, 0.5)


def test_radii_that_were_asked_for_have_columns() -> None:
    one = of_radii(0.1, 0.1, procedure={"name": "sequential", "radius": 0.3})
    two = of_radii(0.1, 0.1, procedure={"name": "sequential", "radius": [0.1, 0.7]})
    assert usual_radii([one]) == (0, 0.3)
    assert usual_radii([one, two]) == (0, 0.1, 0.3, 0.7)
    assert usual_radii([two, of_radii(0.3, 0.8)]) == (0, 0.1, 0.25, 0.5, 0.7, 0.75)
    within = of_radii(0.1, 0.1, procedure={"name": "staged", "radius": 0.5})
    assert usual_radii([within, of_radii(1.8)]) == usual_radii([of_radii(1.8)]), "no column is lost for it"
    odd = of_radii(0.1, 0.1, procedure={"radius": ["x", -1, math.inf, 10**400, None]})
    assert usual_radii([odd]) == usual_radii([of_radii(0.1, 0.1)])


def test_a_summary_by_hand(make_run) -> None:
    run = read(make_run("mine", [0, 20, 40, 60], [100, 99, 50]))
    summary = summarise([run], [0, 0.3, 0.37])
    (row,) = summary.rows
    assert [(s.count, s.total) for s in row.accuracy] == [(2, 3), (2, 3), (1, 3)]
    assert (row.noise, row.norm, row.inputs, row.planned) == ("gaussian sigma=0.25", "l2", 3, 4)
    assert (row.mean_draws, row.total_draws, row.mean_seconds, row.total_seconds) == (110.0, 330, 0.5, 1.5)
    assert row.acr == math.fsum(r.radius for r in run.records) / 3
    assert row.acr_interval.low <= row.acr <= row.acr_interval.high
    assert summary.warnings == ("mine: 3 of 4 inputs are recorded; run the same certify command again to finish",)


def test_json_keeps_full_precision(make_run) -> None:
    run = read(make_run("mine", [0, 20], [100, 99]))
    summary = summarise([run], [0, 0.3])
    data = json.loads(json.dumps(summary.to_json(), allow_nan=False))
    assert data["rows"][0]["acr"] == summary.rows[0].acr
    assert data["rows"][0]["accuracy"][1] == {"radius": 0.3} | summary.rows[0].accuracy[1].to_json()
    assert data["rows"][0]["settings"]["noise"]["sigma"] == 0.25
    assert data["radii"] == [0, 0.3]


def test_the_seed_of_the_bootstrap_is_explicit() -> None:
    one = of_radii(*[i / 50 for i in range(50)])
    assert summarise([one], seed=1) == summarise([one], seed=1) != summarise([one], seed=2)


def test_nothing_to_summarise_is_refused() -> None:
    with pytest.raises(InputError, match="at least one run or log"):
        summarise([])
    with pytest.raises(InputError, match="radii must be"):
        summarise([of_radii(0.5)], [-1.0])


LONG = "a_very_long_name_of_a_run_that_nobody_would_choose_but_somebody_has_" * 2


@pytest.mark.parametrize("width", [20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 160])
@pytest.mark.parametrize("name", ["a", "cohen_cifar10_resnet110_sigma0.25", LONG], ids=["short", "usual", "long"])
def test_the_terminal_table_cuts_no_digit_at_any_width(width: int, name: str) -> None:
    some = [
        of_radii(*[i / 100 for i in range(400)], name=name, noise={"name": "gaussian", "sigma": 1.0}),
        of_radii(*[i / 130 for i in range(400)], name=f"{name}2"),
    ]
    summary = summarise(some, envelope=True)
    text = rendered(summary, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    words = Counter(text.split())
    numbers = Counter[str]()
    for row in summary.rows:
        ends = row.acr_interval
        numbers.update([down(row.acr, 4), down(ends.low, 4), up(ends.high, 4)])
        for share in [*row.accuracy, row.abstentions]:
            assert share is not None
            numbers.update([percent(share.value), percent(share.interval.low)])
            numbers.update([percent(share.interval.high, ceiling=True)])
    # The ACR stands there once in a number: the mean of 0, 0.01, ..., 3.99; Clopper-Pearson of 400 of 400 is 99.08.
    assert (numbers["1.9950"], numbers["100.0"] > 0, numbers["99.0"] > 0) == (1, True, True)
    missing = {number: count - words[number] for number, count in numbers.items() if words[number] < count}
    assert not missing, text


def test_a_comparison_cuts_no_digit_at_any_width() -> None:
    a, b = (of_radii(*[i / d for i in range(400)], name=f"{LONG}{d}") for d in (100, 130))
    for width in (20, 40, 60, 80, 120):
        console = Console(width=width, file=io.StringIO(), force_terminal=False)
        compared = compare(a, b)
        console.print(comparison_table(compared))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, text.splitlines())) <= width
        expected = [down(compared.acr_a, 4), down(compared.acr_b, 4)]
        expected += [percent(share.value) for at in compared.accuracy for share in (at.a, at.b)]
        missing = Counter(expected) - Counter(text.split())
        assert not missing, text


def test_more_radii_than_columns_go_on_below() -> None:
    text = rendered(summarise([of_radii(*[i / 100 for i in range(400)])], [i / 5 for i in range(20)]))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 100
    for i in range(20):
        assert repr(i / 5).removesuffix(".0") in text.split()


def test_markup_in_names_is_printed_as_it_is() -> None:
    text = rendered(summarise([of_radii(0.5, name="[red]run[/nope]")]))
    assert "[red]run[/nope]" in text


def test_markdown_by_hand() -> None:
    records = tuple(
        Record(20 * i, 1, p, r, 110, 0.25) for i, (p, r) in enumerate([(1, 0.29), (1, 0.5), (2, 1.0), (-1, 0.0)])
    )
    log = Results(
        "a|b", records, settings=Settings(noise={"name": "gaussian", "sigma": 0.5}, note="rounded"), warnings=("w",)
    )
    lines = markdown(summarise([log], [0, 0.3])).splitlines()
    # Clopper-Pearson at 95%: 2 of 4 is 0.0676-0.9324, 1 of 4 is 0.0063-0.8059; the ACR is (0.29 + 0.5) / 4 = 0.1975
    assert lines[0] == "| name | noise | inputs | ACR | 0 | 0.3 | abstained | draws | seconds |"
    cells = [cell.strip() for cell in lines[2].replace(r"\|", "/").strip("|").split("|")]
    assert cells[:3] == ["a/b", "gaussian sigma=0.5", "4 (0-60, every 20th)"]
    assert cells[3].startswith("0.1975 (0.")
    assert cells[4:] == ["50.0 (6.7-93.3)", "25.0 (0.6-80.6)", "25.0 (0.6-80.6)", "110", "0.25"]
    assert "**Warning.** a|b: w" in lines
    assert "Note: rounded." in lines


def test_abstentions_are_not_flattered() -> None:
    records = tuple(Record(i, 1, -1 if i < 1 else 1, 0.5) for i in range(3000))
    line = markdown(summarise([Results("a", records)], [])).splitlines()[2]
    assert "| 0.1 (0.0-0.2) |" in line


def test_notes_name_whom_they_concern() -> None:
    a, b = of_radii(0.5, name="a", note="rounded"), of_radii(0.5, name="b")
    assert summarise([a, b]).notes == ("a: rounded",)
    assert summarise([a, a]).notes == ("rounded",)


def test_what_people_see_is_public() -> None:
    assert "present" in sc.__all__
    assert (sc.present.markdown, sc.present.rich_table) == (markdown, rich_table)
    assert all(
        hasattr(sc.present, name) for name in ("latex", "comma_separated", "radius_accuracy", "comparison_table")
    )
