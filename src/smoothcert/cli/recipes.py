"""`smoothcert recipes`: what can be trained, who says so, and what it costs."""

from __future__ import annotations

import fnmatch
import json
from typing import Annotated, Any

import typer

from smoothcert.cli import options as o


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="One recipe, in full; or a part of names or a pattern: 'mnist*macer*'.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """List the papers' training recipes with their source, about what they cost, and the published ACR."""
    from rich.table import Table

    from smoothcert.training.recipes import RECIPES, find

    if name is not None and name in RECIPES:
        typer.echo(json.dumps(_full(RECIPES[name]), indent=2))
        return
    pattern = name if name and "*" in name else f"*{name or ''}*"
    chosen = [recipe for known, recipe in RECIPES.items() if fnmatch.fnmatchcase(known, pattern)] or [find(name or "")]
    if as_json:
        typer.echo(json.dumps([_full(recipe) for recipe in chosen], indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("recipe", min_width=max(len(recipe.name) for recipe in chosen))
    for column, width in {"epochs": 6, "passes": 6, "core-hours": 10, "ACR": 6}.items():
        table.add_column(column, justify="right", min_width=width)
    table.add_column("source", overflow="ellipsis", no_wrap=True, ratio=1)
    for recipe in chosen:
        acr = "" if recipe.published_acr is None else f"{recipe.published_acr:g}"
        table.add_row(
            recipe.name, str(recipe.epochs), str(recipe.passes), _about(recipe.core_hours), acr, recipe.source
        )
    o.console().print(table)
    typer.echo(
        "passes: forward and backward, per image and epoch. core-hours: about, on one server core without a GPU.\n"
        "ACR: published, of the full schedule. One in full: smoothcert recipes NAME"
    )


def _full(recipe: Any) -> dict[str, Any]:
    return {**recipe.to_json(), "passes": recipe.passes, "core_hours": recipe.core_hours}


def _about(hours: float | None) -> str:
    return "" if hours is None else f"{float(f'{hours:.2g}'):g}"
