"""`smoothcert predict`: the smoothed classifier's answers to images and arrays, with a radius if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli import procedure_options as p
from smoothcert.cli import router_options as r
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json
from smoothcert.core.errors import InputError

AsRun = Annotated[
    Path | None, option("Answer as the classifier that this run certified; another model is refused.", "--run")
]
Certify = Annotated[bool, option("Give a radius with each answer, within which nothing changes it.", "--certify")]
Draws = Annotated[int | None, option("Draws per input. Default: 1000; with --certify 100000.")]
Out = Annotated[Path | None, option("Write the answers to a .csv or .json file, too.")]
SETTLED_BY_RUN = ("sigma", "noise", "values", "grid", "batch_size", "backend")
OF_CERTIFY = ("procedure", "radius", "n0", "beta", "bound")


def predict(
    context: typer.Context, model: o.Model, input_: o.Inputs, run: AsRun = None, certify: Certify = False,
    out: Out = None, sigma: o.Strength = None, noise: o.NoiseName = "gaussian", values: o.Values = None,
    grid: o.Grid = "auto", n: Draws = None, alpha: o.Alpha = 0.001, procedure: p.Name = "fixed",
    radius: p.Radius = [], n0: p.N0 = None, beta: p.Beta = None, bound: p.BoundName = None, resize: o.Resize = None,  # noqa: B006
    crop: o.Crop = None, class_names: o.ClassNames = None, seed: o.Seed = 0, batch_size: o.BatchSize = None,
    device: o.Device = None, workers: o.Workers = None, pool: o.PoolName = "threads", address: o.Address = None,
    gpus_per_worker: o.GpusPerWorker = None, backend: o.Backend = "eager",
    calibration: o.Calibration = None, data_root: o.DataRoot = None, memory: o.MemoryAt = None,
    router: r.Model = None, router_sigma: r.Strength = None, as_json: o.AsJson = False,
) -> None:  # fmt: skip
    """Answer with the smoothed classifier, or abstain where two classes are too close."""
    from smoothcert.procedures import Predict
    from smoothcert.workflows import answers
    from smoothcert.workflows import predict as workflow
    from smoothcert.workflows.choices import NoiseChoice, PoolChoice
    from smoothcert.workflows.procedure_choice import ProcedureChoice
    from smoothcert.workflows.routing import models_of
    from smoothcert.workflows.terminal import terminal_observer

    _refuse_given(context, SETTLED_BY_RUN if run is not None else (), "does not go with --run, which names it")
    _refuse_given(context, () if certify else OF_CERTIFY, "goes with --certify: give both")
    if out is not None:
        answers.check_answers_name(out)
    certified = ProcedureChoice(procedure, radius, n, n0, alpha, beta, bound=bound)
    how = certified if certify else Predict(n=1_000 if n is None else n, alpha=alpha)
    given_seed = seed if o.was_given(context, "seed") else None
    chosen = workflow.Running(NoiseChoice(noise, sigma, None, values, grid), backend, batch_size)
    where = PoolChoice(pool, workers, address, gpus_per_worker)
    with terminal_observer() as observer:
        found = workflow.predict(
            models_of(model, router, strength=router_sigma), input_, run=run,
            procedure=how, memory=memory, calibration=calibration, device=device,
            running=None if run is not None else chosen, seed=given_seed, pool=where, data_root=data_root,
            read=o.reading(resize, crop, class_names=class_names), observer=observer,
        )  # fmt: skip
    if out is not None:
        answers.write_answers(out, found)
    for answer in found:
        if as_json:
            say_json(answer.to_json(), indent=None)
        else:
            say(str(answer))


def _refuse_given(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if o.was_given(context, name):
            raise InputError(f"--{name.replace('_', '-')} {why}; leave it out")
