"""`smoothcert memory`: what a memory of certified regions holds, whether it holds together, and a copy of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.memory import Memory

Where = Annotated[str, typer.Argument(help="An SQLite file, or postgresql://user@host/database.", show_default=False)]
MOST_ROWS = 100


def info(where: Where, as_json: o.AsJson = False) -> None:
    """Say whose memory it is, and how many regions it has."""
    about = _open(where).info()
    if as_json:
        typer.echo(json.dumps(about, indent=2))
        return
    radii = about.pop("radius")
    about["radius"] = ", ".join(f"{name} {value}" for name, value in radii.items())
    about["classifier"] = ", ".join(f"{name} {value}" for name, value in about["classifier"].items() if value)
    about["by_class"] = ", ".join(f"{name}: {count}" for name, count in about["by_class"].items())
    about["noise"] = " ".join(str(value) for value in about["noise"].values())
    for name, value in about.items():
        typer.echo(f"{name.replace('_', ' ')}: {value}")


def check(where: Where, as_json: o.AsJson = False) -> None:
    """Check the whole store: every region as it was written, no two of different classes overlap. Status 1: not so."""
    memory = _open(where)
    found = memory.check()
    if as_json:
        typer.echo(json.dumps({"regions": len(memory) if not found else None, "findings": found}, indent=2))
    else:
        for sentence in found[:MOST_ROWS]:
            typer.echo(sentence)
        if len(found) > MOST_ROWS:
            typer.echo(f"and {len(found) - MOST_ROWS} more; --json lists all")
        if not found:
            typer.echo(f"{len(memory)} regions hold: each as it was written, none of different classes overlap")
    if found:
        raise typer.Exit(1)


def export(where: Where, out: Annotated[Path, typer.Option(help="The .npz file to write.")]) -> None:
    """Write all regions to an .npz file: inputs, labels, radii, about (JSON of the certificates), owner (JSON)."""
    import numpy as np

    memory = _open(where)
    if out.suffix != ".npz":
        raise InputError(f"--out must end in .npz, got {out}")
    if out.exists():
        raise InputError(f"{out} exists; give another --out")
    regions = list(memory.regions())
    shape = (len(regions), *(memory.owner or {})["shape"])
    np.savez(
        out,
        inputs=np.array([x for _, x in regions], dtype=np.float32).reshape(shape),
        labels=np.array([region.label for region, _ in regions], dtype=np.int64),
        radii=np.array([region.radius for region, _ in regions], dtype=np.float64),
        about=np.array([region.about for region, _ in regions], dtype=np.str_),
        owner=np.array(json.dumps(memory.owner)),
    )
    typer.echo(f"{len(regions)} regions are in {out}")


def _open(where: str) -> Memory:
    memory = o.memory(where, there=True)
    assert memory is not None
    return memory
