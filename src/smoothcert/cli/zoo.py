"""`smoothcert zoo`: the models that come with the package."""

from __future__ import annotations

from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.output import say_json, show

Name = Annotated[str | None, typer.Argument(help="One model, in full.", show_default=False)]


def zoo(name: Name = None, as_json: o.AsJson = False) -> None:
    """List the packaged models, and what their own certificates prove; take one by --model zoo:NAME."""
    from smoothcert.workflows import zoo as workflow

    if name is not None:
        say_json(workflow.in_full(name.removeprefix("zoo:")))
    elif as_json:
        say_json(workflow.all_in_full())
    else:
        show(workflow.table())
