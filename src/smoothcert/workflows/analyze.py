"""Runs and public logs become one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from smoothcert import analysis
from smoothcert.analysis import Results, Summary
from smoothcert.core.errors import InputError
from smoothcert.present import (
    acr_by_members,
    comma_separated,
    draws_by_votes,
    draws_saved,
    latex,
    markdown,
    radius_accuracy,
    rich_table,
    sigma_histogram,
)

WIDTH = 120  # columns of a table that goes to no terminal
KINDS = {
    "curves": radius_accuracy,
    "sigma": sigma_histogram,
    "draws": draws_by_votes,
    "saved": draws_saved,
    "members": acr_by_members,
}
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
    seeds: bool = False,
    figure: Path | None = None,
    kind: str | None = None,
) -> Analysis:
    """Read runs, public logs and folders of them, and summarise them in one table.

    Args:
        sources: run folders, TSV logs, or folders that hold them: a leaderboard.
        radii: columns of the table. Default: chosen.
        shared: only the inputs that all have in common.
        alpha, n: compute runs of fixed again from their votes, at this alpha, with so many of their draws.
        envelope: add the best of each input over all.
        seeds: add mean and deviation of runs that differ in seed alone.
        figure: a .png, .svg or .pdf file to draw to.
        kind: of the figure, one of `KINDS`. Default: curves.
    """
    _check_kind(kind, figure, envelope)
    board = analysis.leaderboard(sources)
    results = list(board.results)
    if alpha is not None or n is not None:
        results = [analysis.reanalyse(result, alpha=alpha, n=n) for result in results]
    if shared:
        results = analysis.shared(results)
    rows = [*results, analysis.upper_envelope(results)] if envelope else results
    summary = analysis.summarise(rows, None if radii is None else list(radii), seeds=seeds)
    if figure is not None:
        _draw(results, figure, kind or "curves", envelope)
    return Analysis(tuple(results), summary, board.skipped)


def _check_kind(kind: str | None, figure: Path | None, envelope: bool) -> None:
    if kind is not None and kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind is not None and figure is None:
        raise InputError(f"--kind {kind} needs --figure, the file to draw to")
    if envelope and kind not in (None, "curves"):
        raise InputError(f"--envelope does not go with --kind {kind}; leave one of them out")


def _draw(results: Sequence[Results], path: Path, kind: str, envelope: bool) -> None:
    if kind == "curves":
        radius_accuracy(results, path, envelope=envelope)
    else:
        KINDS[kind](results, path)


def table_text(summary: Summary, form: str = "terminal") -> str:
    """A summary as text: for a terminal, without colours, or as markdown, latex or csv."""
    if form in FORMS:
        return FORMS[form](summary)
    if form != "terminal":
        raise InputError(f"form must be terminal, {', '.join(FORMS)}, got {form!r}")
    console = Console(width=WIDTH, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(rich_table(summary))
    return captured.get()
