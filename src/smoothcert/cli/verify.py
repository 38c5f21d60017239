"""`smoothcert verify`: whether a run holds, from its votes alone or with the model that made them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from smoothcert.cli import options as o
from smoothcert.cli import router_options as r
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json, show

MOST_ROWS = 100

RunFolder = Annotated[Path, typer.Argument(help="The run folder to check.", show_default=False)]
Certified = Annotated[list[Path], option("What was certified, as then: its votes are drawn again and compared.")]
Share = Annotated[float, option("Share of the inputs to draw again, chosen at random.")]
Fresh = Annotated[int | None, option("Also make so many fresh draws per input and test whether the votes agree.")]
Pick = Annotated[int | None, option("Seed of the share and of fresh draws. Default: random, and printed.")]


def verify(
    run: RunFolder,
    model: Certified = [],  # noqa: B006
    data: o.RunData = None,
    input_: o.Inputs = [],  # noqa: B006
    data_root: o.DataRoot = None,
    share: Share = 1.0,
    fresh: Fresh = None,
    pick: Pick = None,
    device: o.Device = None,
    workers: o.Workers = None,
    pool: o.PoolName = "threads",
    address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None,
    calibration: o.Calibration = None,
    memory: o.MemoryAt = None,
    router: r.Model = None,
    as_json: o.AsJson = False,
) -> None:
    """Check a run: every claim again from its votes; with --model the votes again. Status 1: not all holds."""
    from smoothcert.workflows import verify as workflow
    from smoothcert.workflows.choices import PoolChoice
    from smoothcert.workflows.routing import models_of
    from smoothcert.workflows.terminal import terminal_observer

    where = PoolChoice(pool, workers, address, gpus_per_worker)
    with terminal_observer() as observer:
        found = workflow.verify(
            run, model=models_of(model, router) if model or router else None,
            data=o.one_of(data, input_), data_root=data_root, share=share, fresh=fresh,
            pick=pick, device=device, pool=where, calibration=calibration, memory=memory, observer=observer,
        )  # fmt: skip
    if as_json:
        say_json(found.to_json())
        raise typer.Exit(found.status)
    if found.findings:
        table = Table(*(Column(title, overflow="fold") for title in ("where", "check", "what does not hold")))
        for finding in found.findings[:MOST_ROWS]:
            table.add_row(*map(escape, (finding.where, finding.check, finding.sentence)))
        show(table)
    if len(found.findings) > MOST_ROWS:
        say(f"and {len(found.findings) - MOST_ROWS} more; --json lists all")
    for note in found.notes:
        show(f"note: {note}", style="dim")
    say(found.sentence)
    raise typer.Exit(found.status)
