"""`smoothcert board`: runs beside every published method on the same images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json, show

Sources = Annotated[
    list[Path], typer.Argument(help="Runs on MNIST or CIFAR-10 test images; public TSV logs.", show_default=False)
]


def board(
    sources: Sources,
    sigma: Annotated[float | None, option("Only published logs with this noise.")] = None,
    network: Annotated[str | None, option("Only published logs of this network: lenet, resnet20 or resnet110.")] = None,
    radii: o.Radii = None,
    same_draws: Annotated[
        bool, option("Bring the published logs down to the runs' number of draws: a part of their votes.")
    ] = False,
    out: Annotated[Path | None, option("Write all of it as an HTML page, too.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Put runs beside the published methods on the same images, paired by image, with intervals."""
    from smoothcert.workflows import board as workflow

    chosen = o.numbers(radii)
    found = workflow.board(sources, sigma=sigma, network=network, radii=chosen, same_draws=same_draws)
    if as_json:
        say_json(workflow.to_json(found))
    else:
        show(workflow.table(found, chosen))
        say("Published: " + "; ".join(workflow.sources_of(found)))
    if out is not None:
        workflow.page(found, out, chosen)
        say(f"The page is in {out}; open it in any browser: {out.resolve().as_uri()}")
