"""Runs and public logs become one table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from smoothcert import analysis
from smoothcert.analysis import Results, Summary
from smoothcert.core.errors import InputError
from smoothcert.present import comma_separated, hardness_table, latex, markdown, radius_accuracy, rich_table
from smoothcert.present.figures import FIGURES, draw
from smoothcert.present.fitting import FittingTable
from smoothcert.present.hardness_table import has_hardness

WIDTH = 120  # columns of a table that goes to no terminal
FORMS = {"markdown": markdown, "latex": latex, "csv": comma_separated}


@dataclass(frozen=True)
class Analysis:
    """What was read (without rows that were added), the table, and what could not be read."""

    results: tuple[Results, ...]
    summary: Summary
    skipped: tuple[str, ...]


def analyze(
    sources: Sequence[str | Path],
    *,
    radii: Sequence[float] | None = None,
    shared: bool = False,
    alpha: float | None = None,
    n: int | None = None,
    envelope: bool = False,
    oracle: bool = False,
    against: str | Path | None = None,
    seeds: bool = False,
    log_sigma: float | None = None,
    figure: Path | None = None,
    kind: str | None = None,
) -> Analysis:
    """Read runs, public logs and folders of them, and summarise them in one table.

    Args:
        sources: run folders, TSV logs, or folders that hold them: a leaderboard.
        radii: columns of the table. Default: chosen.
        shared: only the inputs that all have in common.
        alpha, n: compute runs of fixed again from their votes, at this alpha, with so many of their draws.
        envelope: add the largest of each number over all (UE).
        oracle: add the best of each input, chosen knowing the truth.
        against: the run that draws and time are saved against. Default: fixed n.
        seeds: add mean and deviation of runs that differ in seed alone.
        log_sigma: of Gaussian noise of public logs whose name does not say it: their radii then tell p_A.
        figure: a .png, .svg or .pdf file to draw to.
        kind: of the figure, a name of `FIGURES`. Default: curves.
    """
    _check_kind(kind, figure, envelope or oracle)
    board = analysis.leaderboard(sources)
    results = [_with_sigma(result, log_sigma) for result in board.results]
    baseline = [] if against is None else [analysis.read(against)]  # it goes the same way as the results
    if alpha is not None or n is not None:
        results, baseline = (
            [analysis.reanalyse(result, alpha=alpha, n=n) for result in some] for some in (results, baseline)
        )
    if shared:
        common = analysis.on_shared_inputs([*results, *baseline])
        results, baseline = common[: len(results)], common[len(results) :]
    summary = analysis.summarise(
        [*results, analysis.oracle(results)] if oracle else results,
        None if radii is None else list(radii),
        seeds=seeds,
        envelope=envelope,
        against=baseline[0] if baseline else None,
    )
    if figure is not None and (envelope or oracle):
        radius_accuracy(results, figure, envelope=envelope, oracle=oracle)
    elif figure is not None:
        draw(kind or "curves", results, figure)
    return Analysis(tuple(results), summary, board.skipped)


def _with_sigma(result: Results, sigma: float | None) -> Results:
    """A public log that does not say its sigma, with the one that the user says."""
    if sigma is None or result.settings.source is None or result.settings.log_sigma is not None:
        return result
    if not 0 < sigma < math.inf:
        raise InputError(f"--log-sigma must be positive and finite, got {sigma}")
    return dataclasses.replace(result, settings=dataclasses.replace(result.settings, log_sigma=sigma))


def _check_kind(kind: str | None, figure: Path | None, best: bool) -> None:
    if kind is not None:
        FIGURES.find(kind)
    if kind is not None and figure is None:
        raise InputError(f"--kind {kind} needs --figure, the file to draw to")
    if best and kind not in (None, "curves"):
        raise InputError(f"--envelope and --oracle do not go with --kind {kind}; leave one of them out")


def terminal_tables(summary: Summary) -> list[FittingTable]:
    """The summary for a terminal: ACR and accuracies and, where it is known, how sure the results are of each input."""
    return [rich_table(summary), *([hardness_table(summary)] if has_hardness(summary) else [])]


def table_text(summary: Summary, form: str = "terminal") -> str:
    """A summary as text: for a terminal, without colours, or as markdown, latex or csv."""
    if form in FORMS:
        return FORMS[form](summary)
    if form != "terminal":
        raise InputError(f"form must be terminal, {', '.join(FORMS)}, got {form!r}")
    console = Console(width=WIDTH, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        for number, table in enumerate(terminal_tables(summary)):
            if number:
                console.print()
            console.print(table)
    return captured.get()
