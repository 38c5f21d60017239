"""`smoothcert analyze`: runs and public logs become one table, with an interval on every figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o


def analyze(
    sources: Annotated[list[Path], typer.Argument(help="Run folders and public TSV logs.", show_default=False)],
    as_json: o.AsJson = False,
) -> None:
    """Placeholder until the analysis room is there."""
