"""`smoothcert figure`: the papers' figures that need more than results. Those of results are `analyze --kind`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.ensemble import Data, Draws, Every, Members, Start, hold_out, whole_numbers
from smoothcert.cli.options import option
from smoothcert.cli.output import say

Out = Annotated[Path, option("The file to draw to: .png, .svg or .pdf.")]
Kind = Annotated[str, typer.Argument(help="{member_figures}.", show_default=False)]
N = Annotated[int, option("Draws of the certification.")]


def members(
    kind: Kind, model: Members, data: Data, out: Out,
    sizes: Annotated[str, option("Of margins: ensemble sizes.")] = "1,3,5,10,50",
    n: N = 1_000, alpha: o.Alpha = 0.001, split: o.Split = "test", start: Start = 1, every: Every = 20,
    limit: o.Limit = 100, draws: Draws = 128, sigma: o.Strength = None, data_root: o.DataRoot = None, seed: o.Seed = 0,
) -> None:  # fmt: skip
    """Why ensembles help, of your members: margins, p_A and radii by size; how well the model of them fits."""
    from smoothcert.present.figures import Planned
    from smoothcert.workflows import figures as workflow

    held = hold_out(data, split, start, every, limit, "gaussian", sigma, data_root)
    planned = Planned(tuple(whole_numbers(sizes, "--sizes")), n, alpha)
    _say(workflow.members(kind, model, held, out, planned=planned, draws=draws, seed=seed))


def radius(
    out: Out,
    p: Annotated[str | None, option("True probabilities. Default: 0.6 to 1.")] = None,
    sigma: Annotated[float, option("Of Gaussian noise.")] = 0.25,
    alpha: o.Alpha = 0.001,
) -> None:
    """The expected certified radius over the number of draws, for true probabilities p_A; exact."""
    from smoothcert.workflows import figures as workflow

    _say(workflow.radius(out, p=o.numbers(p, "--p"), sigma=sigma, alpha=alpha))


def stages(
    out: Out,
    radius: Annotated[float, option("To certify.")] = 0.25,
    sigma: Annotated[float, option("Of Gaussian noise.")] = 0.25,
    stages: Annotated[str, option("Draws of each stage; the first is drawn.")] = "100,10000,100000,1200000",
    alpha: Annotated[str, option("One or several levels.")] = "0.001,0.001,0.01",
    beta: Annotated[str, option("As many levels of giving up, or one.")] = "0.0001,0.01,0.0001",
) -> None:
    """How the first stage of CertifyAdp ends, by the true p_A: it certifies, gives up or goes on; exact."""
    from smoothcert.workflows import figures as workflow

    levels = [o.numbers(text, name) or [] for text, name in ((alpha, "--alpha"), (beta, "--beta"))]
    steps = whole_numbers(stages, "--stages")
    _say(workflow.stages(out, radius=radius, sigma=sigma, stages=steps, alphas=levels[0], betas=levels[1]))


def noise(
    run: Annotated[Path, typer.Argument(help="A run of certify --sigma-per-input.", show_default=False)],
    out: Out,
    rows: Annotated[int, option("Inputs per side.")] = 3,
    data: o.RunData = None,
    data_root: o.DataRoot = None,
) -> None:
    """Inputs under the noise that all began with and under their own: those that differ most."""
    from smoothcert.workflows import figures as workflow

    _say(workflow.noise_images(run, out, data=data, data_root=data_root, rows=rows))


def progress(
    trainings: Annotated[list[Path], typer.Argument(help="Folders of train --keep-every.", show_default=False)],
    data: Annotated[str, option("What to certify each kept model on.", panel=o.DATA)],
    runs: Annotated[Path, option("Folder for the runs; the same command again goes on with them.")],
    out: Out,
    n: N = 1_000,
    alpha: o.Alpha = 0.001,
    every: Annotated[int, option("Every k-th input.", panel=o.DATA)] = 1,
    limit: o.Limit = 100,
    sigma: o.Strength = None,
    backend: o.Backend = "eager",
    data_root: o.DataRoot = None,
) -> None:
    """The best ACR so far over training time: every model that was kept is certified."""
    from smoothcert.datasets import Subset
    from smoothcert.workflows import figures as workflow
    from smoothcert.workflows.choices import NoiseChoice
    from smoothcert.workflows.terminal import terminal_observer

    with terminal_observer() as observer:
        drawn = workflow.progress(
            trainings, data, out, runs=runs, subset=Subset(every=every, limit=limit),
            noise=NoiseChoice("gaussian", sigma), n=n, alpha=alpha, backend=backend, data_root=data_root,
            observer=observer,
        )  # fmt: skip
    _say(drawn)


def _say(path: Path) -> None:
    say(f"The figure is in {path}")
