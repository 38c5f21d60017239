"""`smoothcert compare`: is one run better than another on the same inputs?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o


def compare(
    run_a: Annotated[Path, typer.Argument(help="A run folder or a public TSV log.", show_default=False)],
    run_b: Annotated[Path, typer.Argument(help="Another one, of the same inputs.", show_default=False)],
    radii: o.Radii = None,
    figure: Annotated[Path | None, typer.Option(help="Save a scatter of their radii: .png, .svg or .pdf.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Compare two runs input by input: differences of ACR and certified accuracy, with intervals and exact tests."""
    from smoothcert import analysis
    from smoothcert.present import comparison_table, radius_scatter

    a, b = analysis.read_all([run_a, run_b])
    comparison = analysis.compare(a, b, None if radii is None else o.numbers(radii))
    if figure is not None:
        radius_scatter(a, b, figure)
    if as_json:
        typer.echo(json.dumps(comparison.to_json(), indent=2))
    else:
        console = o.console()
        console.print(comparison_table(comparison))
        console.print(comparison.sentence, markup=False)
        for note in comparison.notes:
            console.print(f"note: {note}", style="dim", markup=False)
        if figure is not None:
            console.print(f"The scatter is in {figure}", markup=False)
    for warning in comparison.warnings:
        typer.echo(f"warning: {warning}", err=True)
