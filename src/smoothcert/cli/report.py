"""`smoothcert report`: runs and public logs become one HTML file to open, send and print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say

Out = Annotated[Path, option("The HTML file to write.")]
Data = Annotated[str | None, option("The data set that was certified: a name, an .npz file or an image folder.")]


def report(
    sources: Annotated[list[Path], typer.Argument(help="Run folders and public TSV logs.", show_default=False)],
    out: Out = Path("report.html"),
    data: Data = None,
    input_: o.Inputs = [],  # noqa: B006
    data_root: o.DataRoot = None,
    images: Annotated[bool, option("Show the images themselves.", "--images/--no-images")] = True,
    radii: o.Radii = None,
    audit: Annotated[list[Path], option("What verify --json printed of a run; may be repeated.")] = [],  # noqa: B006
) -> None:
    """Write one self-contained page: what is certified, curves, classes, every input; opens offline."""
    from smoothcert.workflows import report as workflow
    from smoothcert.workflows.terminal import terminal_observer

    with terminal_observer() as observer:
        workflow.report(
            sources, out, data=o.one_of(data, input_), data_root=data_root, images=images, radii=o.numbers(radii),
            audits=audit, observer=observer,
        )  # fmt: skip
    say(f"The report is in {out}; open it in any browser: {out.resolve().as_uri()}")
