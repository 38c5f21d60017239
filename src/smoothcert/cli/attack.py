"""`smoothcert attack`: try to refute the certificates of a run, and see how far robustness reaches beyond them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli import router_options as r
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json, show

Run = Annotated[Path, option("Run whose certificates are attacked.")]
Adversaries = Annotated[
    list[str], option("pgd, ddn, autoattack or foolbox:NAME (such as foolbox:L2PGD); may be repeated.", "--attack")
]
Steps = Annotated[int, option("Steps of pgd and ddn.")]
Draws = Annotated[int, option("Noise draws behind every gradient.")]
Votes = Annotated[int, option("Draws that decide whether an answer has changed.")]
Out = Annotated[Path | None, option("Folder of what is found; the same command resumes it. Default: RUN/attack.")]


def attack(
    run: Run,
    model: o.Model,
    adversary: Adversaries = ["pgd", "ddn"],  # noqa: B006
    radii: o.Radii = None,
    steps: Steps = 20,
    draws: Draws = 128,
    votes: Votes = 1_000,
    limit: o.Limit = None,
    out: Out = None,
    figure: o.Figure = None,
    data: o.RunData = None,
    input_: o.Inputs = [],  # noqa: B006
    data_root: o.DataRoot = None,
    device: o.Device = None,
    workers: o.Workers = None,
    pool: o.PoolName = "threads",
    address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None,
    calibration: o.Calibration = None,
    router: r.Model = None,
    as_json: o.AsJson = False,
) -> None:
    """Attack the smoothed classifier: below a certified radius nothing may succeed (status 1 if it does)."""
    from smoothcert.workflows import attack as workflow
    from smoothcert.workflows.choices import PoolChoice
    from smoothcert.workflows.routing import models_of
    from smoothcert.workflows.terminal import terminal_observer

    where = PoolChoice(pool, workers, address, gpus_per_worker)
    with terminal_observer() as observer:
        found = workflow.attack(
            run, models_of(model, router), adversaries=adversary, radii=o.numbers(radii), steps=steps, draws=draws,
            votes=votes, limit=limit, out=out, figure=figure, data=o.one_of(data, input_), data_root=data_root,
            device=device, pool=where, calibration=calibration, observer=observer,
        )  # fmt: skip
    if as_json:
        say_json(found.to_json(), indent=None)
    else:
        show(found.table)
    for sentence in found.refuted:
        show(sentence, style="bold red")
    say(found.sentence, err=True)
    raise typer.Exit(found.status)
