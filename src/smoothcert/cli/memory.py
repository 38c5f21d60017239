"""`smoothcert memory`: what a memory of certified regions holds, whether it holds together, and a copy of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.output import say, say_json

Where = Annotated[str, typer.Argument(help="An SQLite file, or postgresql://user@host/database.", show_default=False)]
MOST_ROWS = 100


def info(where: Where, as_json: o.AsJson = False) -> None:
    """Say whose memory it is, and how many regions it has."""
    from smoothcert.workflows import memory as workflow

    about = workflow.info(where)
    if as_json:
        say_json(about)
    else:
        say("\n".join(workflow.in_words(about)))


def check(where: Where, as_json: o.AsJson = False) -> None:
    """Check the whole store: every region as it was written, no two of different classes overlap. Status 1: not so."""
    from smoothcert.workflows import memory as workflow

    regions, found = workflow.check(where)
    if as_json:
        say_json({"regions": regions, "findings": found})
    elif found:
        rest = [f"and {len(found) - MOST_ROWS} more; --json lists all"] if len(found) > MOST_ROWS else []
        say("\n".join([*found[:MOST_ROWS], *rest]))
    else:
        say(f"{regions} regions hold: each as it was written, none of different classes overlap")
    raise typer.Exit(int(bool(found)))


def export(where: Where, out: Annotated[Path, o.option("The .npz file to write.")]) -> None:
    """Write all regions to an .npz file: inputs, labels, radii, about (JSON of the certificates), owner (JSON)."""
    from smoothcert.workflows import memory as workflow

    say(f"{workflow.export(where, out)} regions are in {out}")
