"""`smoothcert demo`: from nothing to certificates in a few minutes, on data that comes inside a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from smoothcert.cli import options as o
from smoothcert.cli.analyze import analyze
from smoothcert.cli.options import option
from smoothcert.cli.output import say
from smoothcert.cli.report import report

Out = Annotated[Path, option("Folder for the model, the runs, the figure and the report.")]


def demo(
    out: Out = Path("demo"),
    sigma: Annotated[float, option("Noise of training and certification.")] = 0.5,
    epochs: Annotated[int, option("Epochs of training.")] = 10,
    limit: Annotated[int, option("Test images to certify.")] = 100,
    n: Annotated[int, option("Draws per image.")] = 10_000,
    seed: o.Seed = 0,
    device: o.Device = None,
) -> None:
    """Train a LeNet under noise on 4000 MNIST images, certify test images; table, curve and report."""
    from smoothcert.workflows import demo as workflow
    from smoothcert.workflows.terminal import terminal_observer

    show = workflow.Demo(out, sigma=sigma, epochs=epochs, limit=limit, n=n, seed=seed, device=device)
    with terminal_observer() as observer:
        if show.model.exists():
            say(f"1. The model is there: {show.model}")
        else:
            say(f"1. Training LeNet on 4000 MNIST images with Gaussian noise, sigma {sigma:g}, {epochs} epochs")
            show.train(observer)
        say(f"2. Certifying {limit} test images with {n} draws each, 99.9% confidence")
        run = show.certify(observer)
        say(f"{run.outcome.sentence}; see: smoothcert analyze {run.path}")
        say("3. The same images at two given radii, with as few draws as possible")
        quick = show.decide(observer)
        say(f"{quick.outcome.sentence}; see: smoothcert analyze {quick.path}")
    say("4. What is proved")
    analyze([run.path, quick.path], figure=out / "radius-accuracy.png")
    say("\n5. The page: curves, classes, and every image with its votes")
    report([run.path, quick.path], out=out / "report.html")
    say("\nNext:")
    for arguments, why in show.next_steps().items():
        say(f"  {arguments}    # {why}")
    say("Your own model: see the README, examples/resnet20.py and examples/sklearn_table.py")
