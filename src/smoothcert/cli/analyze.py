"""`smoothcert analyze`: runs and public logs become one table, with an interval on every figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from smoothcert.cli import options as o
from smoothcert.errors import InputError


def analyze(
    sources: Annotated[list[Path], typer.Argument(help="Run folders and public TSV logs.", show_default=False)],
    radii: Annotated[str | None, typer.Option(help="Radii of the table, as in 0,0.25,0.5. Default: chosen.")] = None,
    shared: Annotated[bool, typer.Option("--shared", help="Only the inputs that all have in common.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Save the radius-accuracy curves: .png, .svg or .pdf.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Print certified accuracy at radii, ACR, abstentions and cost, each with a 95% interval."""
    from smoothcert import analysis

    results = analysis.read_all(sources)
    if shared:
        results = analysis.shared(results)
    summary = analysis.summarise(results, None if radii is None else _numbers(radii))
    if figure is not None:
        analysis.radius_accuracy(results, figure)
    if as_json:
        typer.echo(json.dumps(summary.to_json(), indent=2))
    elif markdown:
        typer.echo(analysis.markdown(summary))
    else:
        console = Console(width=None if Console().is_terminal else 120, highlight=False)
        console.print(analysis.rich_table(summary))
        for cost in summary.costs:
            console.print(cost, markup=False)
        for note in summary.notes:
            console.print(f"note: {note}", style="dim", markup=False)
        if figure is not None:
            console.print(f"The curves are in {figure}", markup=False)
    if not markdown:
        for warning in summary.warnings:
            typer.echo(f"warning: {warning}", err=True)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--radii must be numbers with commas between them, as in 0,0.25,0.5, got {text!r}") from None
