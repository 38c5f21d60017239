"""`smoothcert predict`: the smoothed classifier's answer to an image or an array."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.core.errors import InputError
from smoothcert.core.text import printable

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.engine import Smoothed
    from smoothcert.memory import Memory
    from smoothcert.models import Checkpoint
    from smoothcert.runs import Run


def predict(
    context: typer.Context,
    model: o.Model,
    input_: Annotated[list[Path], typer.Option("--input", help="An image, or an .npy array of one or more inputs.")],
    run: Annotated[
        Path | None, typer.Option(help="Answer as the classifier that this run certified; another model is refused.")
    ] = None,
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    values: o.Values = None,
    grid: o.Grid = "auto",
    n: Annotated[int, typer.Option(help="Draws per input.")] = 1_000,
    alpha: o.Alpha = 0.001,
    seed: o.Seed = 0,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    workers: o.Workers = None,
    backend: o.Backend = "eager",
    calibration: o.Calibration = None,
    data_root: o.DataRoot = None,
    memory: o.MemoryAt = None,
    as_json: o.AsJson = False,
) -> None:
    """Answer with the smoothed classifier, or abstain where two classes are too close."""
    import torch

    from smoothcert.datasets import read_inputs
    from smoothcert.engine import Smoothed
    from smoothcert.models import ensembles
    from smoothcert.procedures import Predict

    procedure = Predict(n=n, alpha=alpha)
    opened = None if run is None else _run(run, context)
    remembered = o.memory(memory, there=True)
    there = o.run_device(opened) if opened is not None else None
    checkpoint = ensembles.load_model(model, o.device(device or there))
    shape = tuple(checkpoint.architecture.input_shape)
    batches = {path: read_inputs(path, shape) for path in input_}
    inputs = [(path, torch.from_numpy(x)) for path in input_ for x in batches[path][0]]
    eight_bit = all(is_8_bit for _, is_8_bit in batches.values())
    smoothed = (
        _certified(
            opened,
            checkpoint,
            seed if _given(context, "seed") else None,
            workers,
            o.run_calibration(opened, calibration, None, data_root),
            remembered,
        )
        if opened is not None
        else Smoothed(
            checkpoint.model,
            num_classes=checkpoint.architecture.num_classes,
            noise=o.noise(noise, sigma, None, values, checkpoint, grid=grid, eight_bit=eight_bit),
            seed=seed,
            batch_size=batch_size,
            workers=workers,
            backend=backend,
            calibration=o.calibration(backend, calibration, None, data_root)[0],
            memory=remembered,
            input_range=(0, 1),
            input_shape=shape,
        )
    )
    names = checkpoint.details.get("class_names") or [str(c) for c in range(checkpoint.architecture.num_classes)]
    predictions = smoothed.predict(torch.stack([x for _, x in inputs]), procedure)
    for (path, _), prediction in zip(inputs, predictions, strict=True):
        if as_json:
            typer.echo(json.dumps({"input": str(path), **prediction.to_json()}))
        else:
            answer = "abstains" if prediction.abstained else names[prediction.label]
            typer.echo(printable(f"{path}: {answer} ({prediction.reason})"))


def _run(path: Path, context: typer.Context) -> Run:
    """The run of --run; what it settles must not be given beside it."""
    from smoothcert.runs import Run

    for name in ("sigma", "noise", "values", "grid", "batch_size", "backend"):
        if _given(context, name):
            raise InputError(f"--{name.replace('_', '-')} does not go with --run, which names it; leave it out")
    opened = Run.open(path)
    if opened.config.sigma_search is not None and _given(context, "seed"):
        raise InputError(f"--seed does not go with {path}, whose seed decides the sigma of each input; leave it out")
    return opened


def _given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _certified(
    run: Run,
    checkpoint: Checkpoint,
    seed: int | None,
    workers: int | None,
    calibration: Tensor | None,
    memory: Memory | None,
) -> Smoothed:
    """The smoothed classifier of the run; whatever is run otherwise is said."""
    from smoothcert.audit.memory import refuse_other_memory
    from smoothcert.audit.rebuild import other_circumstances, rebuild, refuse_other_model, refuse_soft

    refuse_soft(run, "predict")
    refuse_other_memory(run, memory)
    refuse_other_model(run, checkpoint.fingerprint)
    shape, classes = tuple(checkpoint.architecture.input_shape), checkpoint.architecture.num_classes
    smoothed = rebuild(
        run,
        checkpoint.model,
        classes,
        seed=seed,
        workers=workers,
        calibration=calibration,
        memory=memory,
        input_range=(0, 1),
        input_shape=shape,
    )
    if smoothed.search is not None and memory is None:
        typer.echo(
            "warning: the sigma of each input is its own, so its certificate claims nothing about the answers to its "
            "neighbours; certify with --memory",
            err=True,
        )
    for what in other_circumstances(run, smoothed):
        typer.echo(f"warning: the model is not run as it was certified: {what}", err=True)
    return smoothed
