"""The smoothed classifier's answers to inputs from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from smoothcert.audit.memory import refuse_other_memory
from smoothcert.audit.rebuild import other_circumstances, refuse_soft
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, ReadOptions
from smoothcert.engine import Pool, Routed, Smoothed
from smoothcert.memory import Memory
from smoothcert.noise import Noise
from smoothcert.procedures import Certificate, Predict, Prediction, Procedure
from smoothcert.runs import Run
from smoothcert.workflows.answers import Answer
from smoothcert.workflows.brought import AnyModel, Brought, bring
from smoothcert.workflows.choices import NoiseChoice, PoolChoice, resolve_noise, resolve_pool
from smoothcert.workflows.inputs import check_fits
from smoothcert.workflows.memory import opened_memory
from smoothcert.workflows.observer import SILENT, Observer, task
from smoothcert.workflows.of_run import read_as
from smoothcert.workflows.procedure_choice import ProcedureChoice
from smoothcert.workflows.routing import Opened, RoutedModels, build_routed, open_parts
from smoothcert.workflows.sources import (
    calibration_inputs,
    is_eight_bit,
    open_data,
    open_model,
)


@dataclass(frozen=True)
class Running:
    """How the model is run where no run settles it; see `Smoothed`."""

    noise: Noise | NoiseChoice = field(default_factory=NoiseChoice)
    backend: str = "eager"
    batch_size: int | None = None


def predict(
    model: AnyModel,
    inputs: Sequence[str | Path],
    *,
    run: Run | str | Path | None = None,
    running: Running | None = None,
    procedure: Predict | Procedure | ProcedureChoice | None = None,
    seed: int | None = None,
    memory: Memory | str | Path | None = None,
    calibration: Any = None,
    device: str | None = None,
    workers: int | None = None,
    pool: Pool | PoolChoice | None = None,
    data_root: Path | None = None,
    read: ReadOptions | None = None,
    observer: Observer = SILENT,
) -> list[Answer]:
    """Answer inputs of files with the smoothed classifier, or abstain; with a procedure that certifies, prove it.

    Args:
        model: a model whose file says what it takes: a checkpoint or an ensemble; or a router and members.
        inputs: images, folders of images, and .npy files, which may hold several inputs.
        run: answer as the classifier that it certified; another model is refused.
        running: noise and backend, where no run settles them.
        procedure: `Predict()`, the default, answers; `Fixed()` and the like answer with a radius.
        seed: of all draws. Default: that of the run, else 0.
        memory: inside of its regions the memory answers.
        read: how images are resized and cropped, and what classes are called. Default: as the run has it.
        calibration, device, workers, pool, data_root, observer: as of `certify`.
    """
    how = procedure.resolve() if isinstance(procedure, ProcedureChoice) else procedure or Predict()
    opened = None if run is None else run if isinstance(run, Run) else Run.open(Path(run))
    _refuse(opened, running, seed, how, memory)
    where = resolve_pool(pool)
    with opened_memory(memory, there=True) as remembered:
        brought = None if opened is None else bring(opened, model, device=device, observer=observer)
        routed = RoutedModels.of(model) if isinstance(model, Routed) else model
        parts = None
        if brought is not None:
            classifier = brought.classifier
        elif isinstance(routed, RoutedModels):
            _refuse_memory(remembered)
            parts = open_parts(routed, None, device=device, observer=observer)
            classifier = next(iter(parts.members.values()))
        else:
            classifier = open_model(routed, device=device, observer=observer)
        if classifier.input_shape is None:
            raise InputError("predict needs a model whose file says which inputs it takes; call Smoothed.predict")
        data = open_data(list(inputs), read=_reading(opened, read), shape=classifier.input_shape)
        check_fits(classifier, data, "--input")
        smoothed: Smoothed | Routed
        if brought is not None:
            calibrating = brought.calibration(calibration, None, data_root)
            smoothed = _certified(brought, seed, workers, where, calibrating, remembered, observer)
        elif parts is not None and isinstance(routed, RoutedModels):
            smoothed = _new_routed(parts, routed, running or Running(), data, seed, workers, where, calibration)
        else:
            chosen = running or Running()
            smoothed = Smoothed(
                classifier.model,
                num_classes=classifier.num_classes,
                noise=resolve_noise(chosen.noise, classifier.details, eight_bit=is_eight_bit(data)),
                seed=seed or 0,
                batch_size=chosen.batch_size,
                workers=workers,
                pool=where,
                backend=chosen.backend,
                calibration=calibration_inputs(chosen.backend, calibration, None, data_root)[0],
                memory=remembered,
                input_range=data.input_range,
                input_shape=classifier.input_shape,
            )
        names = data.class_names or (opened.config.class_names if opened else ()) or classifier.class_names
        return _answers(smoothed, data, how, names, observer)


def _refuse_memory(memory: Memory | None) -> None:
    if memory is not None:
        raise InputError("a routed classifier answers by itself; leave --memory out")


def _new_routed(
    parts: Opened,
    models: RoutedModels,
    chosen: Running,
    data: Dataset,
    seed: int | None,
    workers: int | None,
    pool: Pool | None,
    calibration: Any,
) -> Routed:
    """A routed classifier where no run settles how it is run."""
    for part in (parts.router, *parts.members.values()):
        check_fits(part, data, "--input")
    return build_routed(
        parts,
        models,
        chosen.noise,
        seed=seed or 0,
        eight_bit=is_eight_bit(data),
        pool=pool,
        workers=workers,
        backend=chosen.backend,
        batch_size=chosen.batch_size,
        calibration=calibration_inputs(chosen.backend, calibration, None, None)[0],
        input_range=data.input_range,
        input_shape=data.shape,
    )


def _refuse(
    run: Run | None, running: Running | None, seed: int | None, procedure: Predict | Procedure, memory: object
) -> None:
    """Refuse what does not go together."""
    if run is not None and running is not None:
        raise InputError(f"noise and backend are settled by the run {run.path}; leave them out")
    if run is not None and seed is not None:
        own = "sigma" if run.config.sigma_search else "weights" if run.config.own_weights else None
        if own is not None:
            raise InputError(
                f"--seed does not go with {run.path}, whose seed decides the {own} of each input; leave it out"
            )
    if memory is not None and not isinstance(procedure, Predict):
        raise InputError(
            "--certify does not go with --memory here, because certificates would be kept in it; use smoothcert certify"
        )


def _reading(run: Run | None, read: ReadOptions | None) -> ReadOptions | None:
    """As is said, else as the images of the run were prepared."""
    if run is None or (read is not None and read.preprocessing):
        return read
    return replace(read or ReadOptions(), preprocessing=read_as(run.config.data).preprocessing)


def _answers(
    smoothed: Smoothed | Routed, data: Dataset, how: Predict | Procedure, names: Sequence[str], observer: Observer
) -> list[Answer]:
    """One per input, a few of which are in memory at a time."""
    found: list[Answer] = []
    name = "predict" if isinstance(how, Predict) else "certify"
    with task(observer, name, total=len(data)) as under_way:
        for part in data.parts(range(len(data))):
            batch = data.tensors(part)
            said: list[Prediction | Certificate] = []
            said += smoothed.predict(batch, how) if isinstance(how, Predict) else smoothed.certify(batch, how)
            for index, answer in zip(part, said, strict=True):
                called = None if answer.abstained else names[answer.label]
                found.append(Answer(data.input_name(index), called, answer))
            under_way.reach(len(found))
    return found


def _certified(
    brought: Brought,
    seed: int | None,
    workers: int | None,
    pool: Pool | None,
    calibration: Tensor | None,
    memory: Memory | None,
    observer: Observer,
) -> Smoothed | Routed:
    """The smoothed classifier of the run; whatever is run otherwise is said."""
    run = brought.run
    refuse_soft(run, "predict")
    refuse_other_memory(run, memory)
    smoothed = brought.again(
        seed=seed, workers=workers, pool=pool, calibration=calibration, memory=memory, input_range=(0, 1)
    )
    if (smoothed.search is not None or smoothed.weights is not None) and memory is None:
        own = "sigma of each input is its" if smoothed.search is not None else "weights of each input are its"
        observer.warned(
            f"the {own} own, so its certificate claims nothing about the answers to its "
            "neighbours; certify with --memory"
        )
    for what in other_circumstances(run, smoothed):
        observer.warned(f"the model is not run as it was certified: {what}")
    return smoothed
