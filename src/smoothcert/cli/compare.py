"""`smoothcert compare`: is one run better than another on the same inputs?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.output import say, say_json, show, warn


def compare(
    run_a: Annotated[Path, typer.Argument(help="A run folder or a public TSV log.", show_default=False)],
    run_b: Annotated[Path, typer.Argument(help="Another one, of the same inputs.", show_default=False)],
    radii: o.Radii = None,
    figure: o.Figure = None,
    as_json: o.AsJson = False,
) -> None:
    """Compare two runs input by input: differences of ACR and certified accuracy, with intervals and exact tests."""
    from smoothcert.present import comparison_table, radius_scatter
    from smoothcert.workflows import compare as workflow

    a, b = workflow.read_two(run_a, run_b)
    comparison = workflow.compare(a, b, o.numbers(radii))
    if figure is not None:
        radius_scatter(a, b, figure)
    if as_json:
        say_json(comparison.to_json())
    else:
        show(comparison_table(comparison))
        show(comparison.sentence)
        for note in comparison.notes:
            show(f"note: {note}", style="dim")
        if figure is not None:
            say(f"The scatter is in {figure}")
    for warning in comparison.warnings:
        warn(warning)
