"""`smoothcert analyze`: runs, public logs and folders of them become one table, with an interval on every figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json, show, warn
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.analysis import Summary

Sources = Annotated[
    list[Path],
    typer.Argument(help="Run folders, public TSV logs, or folders of them: a leaderboard.", show_default=False),
]


def analyze(
    sources: Sources,
    radii: o.Radii = None,
    shared: Annotated[bool, option("Only the inputs that all have in common.", "--shared")] = False,
    alpha: Annotated[float | None, option("Compute runs of fixed again at this alpha, from votes.")] = None,
    n: Annotated[int | None, option("Compute runs of fixed again with so many of their draws.")] = None,
    envelope: Annotated[bool, option("Add the largest of each number over all (UE).", "--envelope")] = False,
    oracle: Annotated[bool, option("Add the best of each input, chosen knowing the truth.", "--oracle")] = False,
    against: Annotated[Path | None, option("Run that draws and time are saved against. Default: fixed n.")] = None,
    seeds: Annotated[bool, option("Add mean and deviation of runs that differ in seed.", "--seeds")] = False,
    log_sigma: Annotated[float | None, option("Sigma of public logs whose name does not say it, for p_A.")] = None,
    figure: o.Figure = None,
    kind: Annotated[str | None, option("Of the figure: {figures}. Default: curves.")] = None,
    markdown: Annotated[bool, option("Print a Markdown table.", "--markdown")] = False,
    latex: Annotated[bool, option("Print a LaTeX table (booktabs).", "--latex")] = False,
    csv: Annotated[bool, option("Print a CSV table.", "--csv")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Print certified accuracy at radii, ACR, abstentions, hard inputs and cost, each with a 95% interval."""
    from smoothcert.workflows import analyze as workflow

    form = _format({"markdown": markdown, "latex": latex, "csv": csv, "json": as_json})
    found = workflow.analyze(
        sources, radii=o.numbers(radii), shared=shared, alpha=alpha, n=n, envelope=envelope, oracle=oracle,
        against=against, seeds=seeds, log_sigma=log_sigma, figure=figure, kind=kind,
    )  # fmt: skip
    _print(found.summary, form, figure)
    for skipped in found.skipped:
        warn(f"skipped: {skipped}")
    if form not in ("markdown", "latex"):  # these hold them
        for warning in found.summary.warnings:
            warn(warning)


def _format(wanted: dict[str, bool]) -> str:
    given = [name for name, chosen in wanted.items() if chosen]
    if len(given) > 1:
        raise InputError(f"a table has one format, got {' and '.join(f'--{name}' for name in given)}; give one of them")
    return given[0] if given else "terminal"


def _print(summary: Summary, form: str, figure: Path | None) -> None:
    from smoothcert.workflows.analyze import table_text, terminal_tables

    if form == "json":
        say_json(summary.to_json())
    elif form != "terminal":
        say(table_text(summary, form), end="\n" if form == "markdown" else "")
    else:
        for number, table in enumerate(terminal_tables(summary)):
            if number:
                say("")
            show(table)
        for cost in summary.costs:
            show(cost)
        for note in summary.notes:
            show(f"note: {note}", style="dim")
        if figure is not None:
            say(f"The figure is in {figure}")
