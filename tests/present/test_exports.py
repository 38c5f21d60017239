import csv
import io
from typing import Any

import pytest

from smoothcert.analysis import Results, Settings, oracle, summarise
from smoothcert.noise import Gaussian
from smoothcert.present import comma_separated, latex, rich_table
from smoothcert.present.tables import markdown
from smoothcert.procedures import Ask, Staged, converse
from smoothcert.runs import Record
from smoothcert.stats import Tally


def of_radii(*radii: float, name: str = "a", **settings: Any) -> Results:
    return Results(
        name, tuple(Record(i, 1, 1, r, 110, 0.25) for i, r in enumerate(radii)), settings=Settings(**settings)
    )


def run(name: str, seed: int, *radii: float) -> Results:
    return of_radii(*radii, name=name, procedure={"name": "fixed"}, seed=seed)


def body(text: str) -> list[list[str]]:
    lines = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r"\\")]
    return [[cell.strip() for cell in line.replace(r"\&", "+").split("&")] for line in lines]


def test_latex_by_hand() -> None:
    a, b = of_radii(0.2, 0.42899, 0.6, norm="l2"), of_radii(0.1, 0.5, 0.5, name="b_1 & 50%", norm="l2")
    text = latex(summarise([a, b], [0, 0.25, 0.55]))
    title, header, first, second = body(text)
    assert title[-1] == r"\multicolumn{3}{c}{Certified accuracy (\%) at $\ell_2$ radius}"
    assert header == ["Model", "ACR", "0", "0.25", "0.55"]
    # (0.2 + 0.42899 + 0.6) / 3 = 0.40966, rounded down; ties are both bold
    assert first == ["a", r"\textbf{0.4096}", r"\textbf{100.0}", r"\textbf{66.6}", r"\textbf{33.3}"]
    assert second == [r"b\_1 + 50\%", "0.3666", r"\textbf{100.0}", r"\textbf{66.6}", "0.0"]
    for part in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrrrr}", r"\cmidrule(l){3-5}"):
        assert text.count(part) == 1
    # 3 of 3: Clopper-Pearson from 0.025^(1/3) = 0.2924 on; 1 of 3 is 0.0084-0.9057
    assert "70.8 points of accuracy" in text


@pytest.mark.parametrize("name", ["a\\b", "x^2~", "{}", "$5", "#1", "50%_&"])
def test_any_name_is_escaped(name: str) -> None:
    cell = body(latex(summarise([of_radii(0.5, name=name)], [])))[-1][0].replace("+", r"\&")
    for bare, escaped in {r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~"}.items():
        cell = cell.replace(bare, escaped)
    for character in "&%$#_{}":
        cell = cell.replace(f"\\{character}", character)
    assert cell == name


def test_nothing_is_best_where_nothing_competes() -> None:
    a, b = of_radii(0.2, 0.4), of_radii(0.3, 0.3, name="b")
    assert r"\textbf" not in latex(summarise([a], [0]))
    assert r"\textbf{0" not in latex(summarise([a, of_radii(0.3, name="fewer")], [0])), "other inputs: a warning"
    beside = body(latex(summarise([a, b, oracle([a, b])], [0.35], envelope=True)))
    # a is right to 0.2, 0.4; b to 0.3, 0.3: the oracle takes 0.3 and 0.4, the largest ACR of one is 0.3
    assert beside[-2:] == [["oracle (best of each input)", "0.3500", "50.0"], ["Upper envelope (UE)", "0.3000", "50.0"]]
    assert beside[-4][2] == r"\textbf{50.0}"


def test_the_envelope_and_what_was_not_asked_are_in_every_format() -> None:
    a, b = of_radii(0.2, 0.4), of_radii(0.3, 0.3, name="b")
    summary = summarise([a, b], [0.35], envelope=True)
    *_, row = csv.DictReader(io.StringIO(comma_separated(summary)))
    assert (row["name"], row["ACR"], row["ACR low"], row["% at 0.35"]) == ("upper envelope (UE)", "0.3000", "", "50.0")
    assert "| upper envelope (UE) |  |  | 0.3000 | 50.0 |  |  |  |" in markdown(summary)
    assert [str(column.cells[-1]) for column in rich_table(summary).columns] == ["0.3000", "50.0", ""]
    decided = summarise([staged(0.25)], [0.25, 0.5], envelope=False)
    (row,) = csv.DictReader(io.StringIO(comma_separated(decided)))
    assert (row["% at 0.25"], row["% at 0.5"], row["% at 0.5 low"]) == ("100.0", "", "")
    assert body(latex(decided))[-1][-1] == "--"
    assert "--: not asked." in latex(decided)
    assert "| not asked |" in markdown(decided)
    assert [str(column.cells[-1]) for column in rich_table(decided).columns][2] == "–"
    assert decided.to_json()["rows"][0]["accuracy"][1]["value"] is None


def staged(radius: float) -> Results:
    """A run of two inputs that decided one radius, and certified it."""

    def draw(ask: Ask) -> Tally:
        return Tally((ask.n, 0))

    made = converse(Staged(radius=radius, stages=(100, 1_000, 120_000)).certify(Gaussian(0.25)), draw)
    return Results("staged", tuple(Record.of(i, 0, made, 0.1) for i in range(2)))


def test_warnings_and_notes_are_in_the_caption() -> None:
    doubtful = Results("a_1", (Record(0, 1, 1, 0.5),), settings=Settings(note="rounded"), warnings=("truncated",))
    text = latex(summarise([doubtful]))
    assert r"\textbf{Warning.} a\_1: truncated." in text
    assert "Note: rounded." in text


def test_csv_by_hand() -> None:
    records = [(1, 0.29), (1, 0.5), (2, 1.0), (-1, 0.0)]
    log = Results("a, b", tuple(Record(20 * i, 1, p, r, 110, 0.25) for i, (p, r) in enumerate(records)))
    (row,) = csv.DictReader(io.StringIO(comma_separated(summarise([log], [0, 0.3]))))
    # Clopper-Pearson at 95%: 2 of 4 is 0.0676-0.9324, 1 of 4 is 0.0063-0.8059; the ACR is (0.29 + 0.5) / 4
    assert (row["name"], row["inputs"], row["subset"]) == ("a, b", "4", "0-60, every 20th")
    assert row["ACR"] == "0.1975"
    assert float(row["ACR low"]) <= 0.1975 <= float(row["ACR high"])
    assert [row[f"% at 0{end}"] for end in ("", " low", " high")] == ["50.0", "6.7", "93.3"]
    assert [row[f"% at 0.3{end}"] for end in ("", " low", " high")] == ["25.0", "0.6", "80.6"]
    assert (row["% abstained"], row["draws"], row["seconds"]) == ("25.0", "110", "0.25")
    assert "ACR sd" not in row


def test_averages_are_in_every_format() -> None:
    summary = summarise([run("seed0", 0, 0.2, 0.4), run("seed1", 1, 0.4, 0.8)], [0.3], seeds=True)
    *_, row = csv.DictReader(io.StringIO(comma_separated(summary)))
    # 0.3 and 0.6: mean 0.45, deviation 0.21213, rounded up; 50% and 100%: mean 75%, deviation 35.36
    assert (row["name"], row["ACR"], row["ACR sd"]) == ("mean of 2: seed*", "0.4500", "0.2122")
    assert (row["% at 0.3"], row["% at 0.3 sd"], row["ACR low"]) == ("75.0", "35.4", "")
    assert body(latex(summary))[-1] == ["mean of 2: seed*", r"0.4500 $\pm$ 0.2122", r"75.0 $\pm$ 35.4"]
    assert "| mean of 2: seed* |  |  | 0.4500 ± 0.2122 | 75.0 ± 35.4 |  |  |  |" in markdown(summary)
    table = rich_table(summary)
    assert [str(column.cells[-1]) for column in table.columns] == ["0.4500\n0.2122", "75.0\n35.4", ""]
    assert (str(table.names[-1]), table.labels[-1]) == ("mean of 2: seed*", ("", "±"))
