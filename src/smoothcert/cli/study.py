"""`smoothcert study`: a table of a paper, trained, certified and shown beside its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json, show

Name = Annotated[str | None, typer.Argument(help="Name of a study, or a TOML file. Default: list what there is.")]
Out = Annotated[Path | None, option("Folder of the study; the same command again resumes it. Default: show the plan.")]
ScaleName = Annotated[str | None, option("How large: mnist, cifar, full, ... Default: the study's first.", "--scale")]
Sweeps = Annotated[
    list[str],
    option("Every row with each of these values, as in objective.lam=1,2,4; keys as of train --set.", "--set"),
]
Trained = Annotated[
    list[str],
    option("Checkpoint, or folder of trainings: what has the recipe, seed and data of a network is not trained again."),
]
Jobs = Annotated[int | None, option("Trainings side by side. Default: as many as cores; 1 on a GPU.", panel=o.RUNNING)]


def study(
    name: Name = None,
    out: Out = None,
    scale: ScaleName = None,
    sweeps: Sweeps = [],  # noqa: B006
    trained: Trained = [],  # noqa: B006
    as_json: o.AsJson = False,
    jobs: Jobs = None,
    data_root: o.DataRoot = None,
    device: o.Device = None,
    workers: o.Workers = None,
    pool: o.PoolName = "threads",
    address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None,
) -> None:
    """Train, certify and tabulate a paper's table, beside its numbers and paired by image."""
    from smoothcert.workflows.choices import PoolChoice
    from smoothcert.workflows.studies.listing import listing, plan_text
    from smoothcert.workflows.studies.run import study as workflow
    from smoothcert.workflows.terminal import terminal_observer

    if name is None:
        show(listing())
        return
    if out is None:
        say(plan_text(name, scale, sweeps))
        return
    where = PoolChoice(pool, workers, address, gpus_per_worker)
    with terminal_observer() as observer:
        table = workflow(
            name,
            out=out,
            scale=scale,
            sweeps=sweeps,
            data_root=data_root,
            device=device,
            jobs=jobs,
            pool=where,
            trained=trained,
            observer=observer,
        )
    if as_json:
        say_json(table.to_json())
        return
    show(table.for_terminal())
    say(f"see: {out / 'table.md'}, and smoothcert analyze {out / 'certified'}")
