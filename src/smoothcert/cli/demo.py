"""`smoothcert demo`: from nothing to certificates in a minute, with a model and data that come with the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from smoothcert.cli import options as o
from smoothcert.cli.analyze import analyze
from smoothcert.cli.options import option
from smoothcert.cli.output import say
from smoothcert.cli.report import report

Out = Annotated[Path, option("Folder for the runs, the figure and the report.")]


def demo(
    out: Out = Path("demo"),
    limit: Annotated[int, option("Test images to certify.")] = 50,
    n: Annotated[int, option("Draws per image.")] = 10_000,
    seed: o.Seed = 0,
    device: o.Device = None,
) -> None:
    """Certify test images with a packaged model, in two ways: table, curve and report."""
    from smoothcert.workflows import demo as workflow
    from smoothcert.workflows.terminal import terminal_observer

    show = workflow.Demo(out, limit=limit, n=n, seed=seed, device=device, command=("smoothcert", *sys.argv[1:]))
    say(f"The model: {show.about}")
    with terminal_observer() as observer:
        say(f"1. The largest radius that {n} draws of each of {limit} test images prove, with 99.9% confidence")
        run = show.certify(observer)
        say(f"{run.outcome.sentence}; see: smoothcert analyze {run.path}")
        say("2. Two given radii of the same images, with as few draws as possible")
        quick = show.decide(observer)
        say(f"{quick.outcome.sentence}; see: smoothcert analyze {quick.path}")
    say("3. What is proved")
    analyze([run.path, quick.path], figure=out / "radius-accuracy.png")
    say("\n4. The page: curves, classes, and every image with its votes")
    report([run.path, quick.path], out=out / "report.html")
    say("\nNext:")
    for arguments, why in show.next_steps().items():
        say(f"  {arguments}    # {why}")
    say("Your own model: see the README, examples/resnet20.py and examples/sklearn_table.py")
