"""What a run settles for whoever comes after it: its data, its device, its calibration, its classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from smoothcert import datasets
from smoothcert.audit.rebuild import certified, check_data
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.engine import Smoothed
from smoothcert.memory import Memory
from smoothcert.runs import Run
from smoothcert.workflows.sources import (
    Classifier,
    DataSource,
    ModelSource,
    calibration_inputs,
    named_data,
    open_data,
    open_model,
)


def run_data(run: Run, given: DataSource | None, root: Path | None) -> Dataset:
    """The data that a run certified: those given, else those of that name; others are refused."""
    about = _part(run, "data")
    name, split = about.get("name"), str(about.get("split", "test"))
    if given is None and name not in datasets.NAMES:
        raise InputError(f"the data of {run.path}, {name!r}, are not known by name; give --data PATH")
    if given is None:
        dataset = named_data(str(name), split, root, "--data")
    else:
        dataset = open_data(given, split, root=root, called="--data")
    check_data(run, dataset)
    return dataset


def run_model(run: Run, model: ModelSource, *, device: str | None = None) -> Classifier:
    """The model that was brought for a run, where the run was made; whether it is the same is for `rebuilt`."""
    classes = run.config.get("num_classes")
    return open_model(model, device=device or _device(run), num_classes=classes if type(classes) is int else None)


def run_calibration(run: Run, given: Any, data: DataSource | None, root: Path | None) -> Tensor | None:
    """The calibration inputs of a run's int8 backend: those given, else those it names, where `data` may be found."""
    backend, named = _part(run, "classifier").get("backend"), _part(run, "model").get("calibration")
    name, _, split = str(named).rpartition(":")
    if isinstance(data, str | Path) and name == _part(run, "data").get("name"):
        named = f"{data}:{split}"
    backend = backend.get("name") if isinstance(backend, dict) else None
    return calibration_inputs(str(backend), given, named if isinstance(named, str) else None, root)[0]


def rebuilt(
    run: Run,
    classifier: Classifier,
    *,
    seed: int | None = None,
    workers: int | None = None,
    calibration: Tensor | None = None,
    memory: Memory | None = None,
    input_range: tuple[float, float] | None = None,
    input_shape: tuple[int, ...] | None = None,
) -> Smoothed:
    """The run's smoothed classifier (`audit.rebuild.certified`), of a model that was brought."""
    return certified(
        run,
        classifier.model,
        classifier.num_classes,
        seed=seed,
        workers=workers,
        calibration=calibration,
        memory=memory,
        input_range=input_range,
        input_shape=classifier.input_shape or input_shape,
    )


def resumed_backend(earlier: Run | None, backend: str, batch_size: int | None) -> tuple[str, int | None]:
    """Backend and batch size; auto goes on with what it chose when the run was started."""
    if backend != "auto" or earlier is None:
        return backend, batch_size
    try:
        classifier = earlier.config["classifier"]
        return str(classifier["backend"]["name"]), int(classifier["batch"]) if batch_size is None else batch_size
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{earlier.path / 'run.json'} does not say which backend it chose: give --backend") from None


def _device(run: Run) -> str | None:
    """The device that a run was made on, where it names one."""
    name = _part(run, "classifier").get("device")
    return name if isinstance(name, str) else None


def _part(run: Run, name: str) -> dict[str, Any]:
    """A part of a run's configuration; empty where it was damaged."""
    part = run.config.get(name)
    return part if isinstance(part, dict) else {}
