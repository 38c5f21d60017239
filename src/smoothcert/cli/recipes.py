"""`smoothcert recipes`: what can be trained, who says so, and what it costs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from smoothcert.cli import options as o
from smoothcert.cli.output import say, say_json, show

Name = Annotated[
    str | None, typer.Argument(help="One recipe, in full; or a part of names or a pattern: 'mnist*macer*'.")
]


def recipes(name: Name = None, as_json: o.AsJson = False) -> None:
    """List the papers' training recipes with their source, about what they cost, and the published ACR."""
    from smoothcert.workflows.recipes import in_full, matching

    chosen = matching(name)
    one = next((recipe for recipe in chosen if recipe.name == name), None)
    if as_json or one is not None:
        say_json([in_full(recipe) for recipe in chosen] if one is None else in_full(one))
        return
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    # Narrower than the numbers, they are folded, never cut; a source that does not fit is in the recipe's own listing.
    table.add_column("recipe", min_width=max(len(recipe.name) for recipe in chosen), overflow="fold")
    for column, width in {"epochs": 6, "passes": 6, "core-hours": 10, "ACR": 6}.items():
        table.add_column(column, justify="right", min_width=width, overflow="fold")
    table.add_column("source", overflow="ellipsis", no_wrap=True, ratio=1)
    for recipe in chosen:
        acr = "" if recipe.published_acr is None else f"{recipe.published_acr:g}"
        hours = "" if recipe.core_hours is None else f"{float(f'{recipe.core_hours:.2g}'):g}"
        table.add_row(recipe.name, str(recipe.epochs), str(recipe.passes), hours, acr, recipe.source)
    show(table)
    say(
        "passes: forward and backward, per image and epoch. core-hours: about, on one server core without a GPU.\n"
        "ACR: published, of the full schedule. One in full: smoothcert recipes NAME"
    )
