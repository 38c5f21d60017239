"""`smoothcert analyze`: runs, public logs and folders of them become one table, with an interval on every figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.analysis import Results, Summary


def analyze(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Run folders, public TSV logs, or folders of them: a leaderboard.", show_default=False),
    ],
    radii: o.Radii = None,
    shared: Annotated[bool, typer.Option("--shared", help="Only the inputs that all have in common.")] = False,
    alpha: Annotated[float | None, typer.Option(help="Compute runs of fixed again at this alpha, from votes.")] = None,
    n: Annotated[int | None, typer.Option(help="Compute runs of fixed again with so many of their draws.")] = None,
    envelope: Annotated[bool, typer.Option("--envelope", help="Add the largest of each number over all (UE).")] = False,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Add the best of each input, chosen knowing the truth: no classifier's.")
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Run that draws and time are saved against (SampleRF, TimeRF): for a consensus the full ensemble. "
            "Default: fixed n.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[bool, typer.Option("--seeds", help="Add mean and deviation of runs that differ in seed.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Save a figure: .png, .svg or .pdf.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Of the figure: {figures}. Default: curves.", show_default=False)
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table (booktabs).")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print a CSV table.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Print certified accuracy at radii, ACR, abstentions and cost, each with a 95% interval."""
    from smoothcert import analysis

    form = _format({"markdown": markdown, "latex": latex, "csv": csv, "json": as_json})
    _check_kind(kind, figure, envelope or oracle)
    board = analysis.leaderboard(sources)
    results = list(board.results)
    # The baseline goes the same way as the results.
    baseline = [] if against is None else [analysis.read(against)]
    if alpha is not None or n is not None:
        results, baseline = (
            [analysis.reanalyse(result, alpha=alpha, n=n) for result in some] for some in (results, baseline)
        )
    if shared:
        common = analysis.on_shared_inputs([*results, *baseline])
        results, baseline = common[: len(results)], common[len(results) :]
    rows = [*results, analysis.oracle(results)] if oracle else results
    summary = analysis.summarise(
        rows,
        None if radii is None else o.numbers(radii),
        seeds=seeds,
        envelope=envelope,
        against=baseline[0] if baseline else None,
    )
    if figure is not None:
        _draw(results, figure, kind or "curves", envelope, oracle)
    _print(summary, form, figure)
    for skipped in board.skipped:
        typer.echo(f"warning: skipped: {skipped}", err=True)
    if form not in ("markdown", "latex"):  # these hold them
        for warning in summary.warnings:
            typer.echo(f"warning: {warning}", err=True)


def _format(wanted: dict[str, bool]) -> str:
    given = [name for name, chosen in wanted.items() if chosen]
    if len(given) > 1:
        raise InputError(f"a table has one format, got {' and '.join(f'--{name}' for name in given)}; give one of them")
    return given[0] if given else "terminal"


def _check_kind(kind: str | None, figure: Path | None, best: bool) -> None:
    if kind is not None:
        from smoothcert.present.figures import FIGURES

        FIGURES.find(kind)
    if kind is not None and figure is None:
        raise InputError(f"--kind {kind} needs --figure, the file to draw to")
    if best and kind not in (None, "curves"):
        raise InputError(f"--envelope and --oracle do not go with --kind {kind}; leave one of them out")


def _draw(results: list[Results], path: Path, kind: str, envelope: bool, oracle: bool) -> None:
    from smoothcert.present import radius_accuracy
    from smoothcert.present.figures import draw

    if envelope or oracle:
        radius_accuracy(results, path, envelope=envelope, oracle=oracle)
    else:
        draw(kind, results, path)


def _print(summary: Summary, form: str, figure: Path | None) -> None:
    from smoothcert.present import comma_separated, latex, markdown, rich_table

    if form == "json":
        typer.echo(json.dumps(summary.to_json(), indent=2))
    elif form != "terminal":
        text = {"markdown": markdown, "latex": latex, "csv": comma_separated}
        typer.echo(text[form](summary), nl=form == "markdown")
    else:
        console = o.console()
        console.print(rich_table(summary))
        for cost in summary.costs:
            console.print(cost, markup=False)
        for note in summary.notes:
            console.print(f"note: {note}", style="dim", markup=False)
        if figure is not None:
            console.print(f"The figure is in {figure}", markup=False)
