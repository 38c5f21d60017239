"""The distribution of p_A against a direct computation: of runs, and of public logs by their radii."""

import csv
import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from smoothcert.analysis import Results, read, summarise
from smoothcert.analysis.hardness import hardness, lower_bounds, share_below
from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.present import comma_separated, hardness_table, latex, markdown
from smoothcert.present.figures import FIGURES
from smoothcert.procedures import Scope
from smoothcert.runs import Record
from smoothcert.workflows.analyze import analyze, table_text

VOTES = [100, 95, 80, 30, 99, 55]
DIRECT = [float(stats.beta.ppf(0.001, k, 101 - k)) for k in VOTES]  # k of 100 at alpha = 0.001


def one_wrong(path: Path) -> tuple[Results, list[float]]:
    """A run whose fifth input is sure, and wrong; and the lower bound of each input, 0 where nothing is certified."""
    result = read(path)
    records = list(result.records)
    records[4] = dataclasses.replace(records[4], label=0)
    wanted = [p if p > 0.5 and i != 4 else 0.0 for i, p in enumerate(DIRECT)]
    return dataclasses.replace(result, records=tuple(records)), wanted


def test_it_is_the_clopper_pearson_bound_and_0_where_wrong(make_run: Callable[..., Path]) -> None:
    found, wanted = one_wrong(make_run("run", range(6), VOTES))
    assert list(lower_bounds(found)) == pytest.approx(sorted(wanted), abs=1e-12)
    levels = (0.5, 0.75, 0.9, 0.99)
    assert [share.count for share in share_below(found, levels)] == [sum(p < q for p in wanted) for q in levels]
    assert share_below(found)[0].count == sum(record.abstained or not record.correct for record in found.records)


def test_the_harder_half_and_the_median(make_run: Callable[..., Path]) -> None:
    result, wanted = one_wrong(make_run("run", range(6), VOTES))
    found = hardness(result)
    assert found is not None
    assert found.median == pytest.approx(sorted(wanted)[2], abs=1e-12), "of six the third, not the mean of two"
    radii = sorted(max(0.0, 0.25 * float(stats.norm.ppf(p))) if p else 0.0 for p in wanted)
    assert found.hard_half == pytest.approx(sum(radii[:3]) / 3, abs=1e-9)
    assert summarise([result]).rows[0].hardness == found
    assert json.loads(json.dumps(found.to_json()))["below"][1]["count"] == found.below[1].count


def test_a_public_log_tells_it_by_its_radii(tmp_path: Path) -> None:
    lines = (
        "idx\tlabel\tpredict\tradius\tcorrect\n0\t1\t1\t0.5\t1\n1\t1\t1\t0.1\t1\n2\t1\t0\t0.3\t0\n3\t1\t-1\t0.0\t0\n"
    )
    (tmp_path / "net_sigma0.50.tsv").write_text(lines)
    result = read(tmp_path / "net_sigma0.50.tsv")
    wanted = [0.0, 0.0, float(stats.norm.cdf(0.2)), float(stats.norm.cdf(1.0))]
    assert list(lower_bounds(result)) == pytest.approx(wanted, abs=1e-12)
    (tmp_path / "net.tsv").write_text(lines)
    assert hardness(read(tmp_path / "net.tsv")) is None, "nobody knows its sigma"
    told = analyze([tmp_path / "net.tsv"], log_sigma=0.5).summary
    assert told.rows[0].hardness == hardness(result)
    with pytest.raises(InputError, match="--log-sigma must be positive"):
        analyze([tmp_path / "net.tsv"], log_sigma=-1.0)
    (tmp_path / "net_sigma0.05.tsv").write_text(lines)
    assert hardness(read(tmp_path / "net_sigma0.05.tsv")) is None, "0.5 is no radius of sigma 0.05: the name means else"
    (tmp_path / "sigma0.25_sigma0.50.tsv").write_text(lines)
    assert hardness(read(tmp_path / "sigma0.25_sigma0.50.tsv")) is None


def test_tables_have_it_rounded_so_that_nothing_flatters(make_run: Callable[..., Path]) -> None:
    result, _ = one_wrong(make_run("run", range(6), VOTES))
    other = Results("log_without_sigma", (Record(0, 1, 1, 0.5),))
    summary = summarise([result, other], [0.0])
    found = summary.rows[0].hardness
    assert found is not None
    assert [share.count for share in found.below] == [3, 4, 5, 6]
    cells = ["50.0", "66.7", "83.4", "100.0"]  # 4/6 and 5/6 are rounded up
    (row, empty) = csv.DictReader(io.StringIO(comma_separated(summary)))
    assert [row[f"% p_A<{level}"] for level in ("0.5", "0.75", "0.9", "0.99")] == cells
    assert float(row["median p_A"]) <= found.median < float(row["median p_A"]) + 1e-4
    assert float(row["hard-half ACR"]) <= found.hard_half < float(row["hard-half ACR"]) + 1e-4
    assert empty["median p_A"] == "", "not known, which is not 0"
    assert f"| run | {' | '.join(cells)} |" in markdown(summary)
    assert f"run & {' & '.join(cells)} &" in latex(summary)
    assert latex(summary).count(r"\begin{tabular}") == 2
    assert "p_A" not in markdown(summarise([other], [0.0])), "a table of what nobody knows is not shown"
    assert latex(summarise([other], [0.0])).count(r"\begin{tabular}") == 1
    assert "hard-half ACR" in table_text(summary)


@pytest.mark.parametrize("width", [20, 44, 80, 120])
def test_no_digit_is_cut_at_any_width(make_run: Callable[..., Path], width: int) -> None:
    result, _ = one_wrong(make_run("run", range(6), VOTES))
    console = Console(width=width, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(hardness_table(summarise([result], [0.0])))
    text = captured.get()
    assert all(cell in text for cell in ("50.0", "66.7", "83.4", "100.0"))
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_the_figure_draws_the_empirical_distribution(make_run: Callable[..., Path]) -> None:
    found = read(make_run("run", range(6), VOTES))
    figure = FIGURES.find("certainty")([found])
    x, y = figure.axes[0].lines[0].get_data()
    bounds = lower_bounds(found)
    for at in (0.2, 0.6, 0.8, 0.9, 0.97):
        drawn = y[np.flatnonzero(np.asarray(x) <= at)[-1]]
        assert drawn == pytest.approx(100 * float((bounds <= at).mean()))


def test_what_keeps_no_bound_is_refused(make_run: Callable[..., Path]) -> None:
    unknown = Results("log", (Record(0, 1, 1, 0.5),))
    with pytest.raises(InputError, match="log keeps no bound of p_A"):
        lower_bounds(unknown)
    assert hardness(unknown) is None
    assert len(lower_bounds(read(make_run("m", range(2), [100, 90], scope=Scope.MEMORY)))) == 2
    known = read(make_run("a", range(2), [100, 90]))
    assert hardness(dataclasses.replace(known, settings=Settings(oracle=True))) is None, "an oracle mixes classifiers"
