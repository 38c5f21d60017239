"""`smoothcert predict`: the smoothed classifier's answer to an image or an array."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json
from smoothcert.core.errors import InputError

Inputs = Annotated[list[Path], option("An image, or an .npy array of one or more inputs.", "--input")]
AsRun = Annotated[
    Path | None, option("Answer as the classifier that this run certified; another model is refused.", "--run")
]
SETTLED_BY_RUN = ("sigma", "noise", "values", "grid", "batch_size", "backend")


def predict(
    context: typer.Context,
    model: o.Model,
    input_: Inputs,
    run: AsRun = None,
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    values: o.Values = None,
    grid: o.Grid = "auto",
    n: Annotated[int, option("Draws per input.")] = 1_000,
    alpha: o.Alpha = 0.001,
    seed: o.Seed = 0,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    workers: o.Workers = None,
    pool: o.PoolName = "threads",
    address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None,
    backend: o.Backend = "eager",
    calibration: o.Calibration = None,
    data_root: o.DataRoot = None,
    memory: o.MemoryAt = None,
    as_json: o.AsJson = False,
) -> None:
    """Answer with the smoothed classifier, or abstain where two classes are too close."""
    from smoothcert.procedures import Predict
    from smoothcert.workflows import predict as workflow
    from smoothcert.workflows.choices import NoiseChoice, PoolChoice
    from smoothcert.workflows.terminal import terminal_observer

    for name in SETTLED_BY_RUN if run is not None else ():
        if o.was_given(context, name):
            raise InputError(f"--{name.replace('_', '-')} does not go with --run, which names it; leave it out")
    chosen = NoiseChoice(noise, sigma, None, values, grid)
    where = PoolChoice(pool, workers, address, gpus_per_worker)
    with terminal_observer() as observer:
        answers = workflow.predict(
            model, input_, run=run, procedure=Predict(n=n, alpha=alpha), memory=memory, calibration=calibration,
            running=None if run is not None else workflow.Running(chosen, backend, batch_size), device=device,
            seed=seed if o.was_given(context, "seed") else None, pool=where, data_root=data_root,
            observer=observer,
        )  # fmt: skip
    for answer in answers:
        if as_json:
            say_json({"input": str(answer.source), **answer.prediction.to_json()}, indent=None)
        else:
            say(f"{answer.source}: {answer.class_name or 'abstains'} ({answer.prediction.reason})")
