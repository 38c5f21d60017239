"""What a run settles for whoever comes after it: its data, its device, its calibration, its classifier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from smoothcert import datasets
from smoothcert.audit.rebuild import rebuild, refuse_other_data, refuse_other_model
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, Preprocessing, ReadOptions
from smoothcert.datasets.files import reading
from smoothcert.datasets.npy import map_npy
from smoothcert.engine import Pool, Smoothed
from smoothcert.memory import Memory
from smoothcert.runs import DataConfig, Run
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.sources import (
    Classifier,
    DataSource,
    ModelSource,
    calibration_inputs,
    named_data,
    open_data,
    open_model,
)

OWN_INPUTS = "inputs.npy"
"""What a run of a service holds beside its records: inputs that are nowhere else."""


def run_data(run: Run, given: DataSource | None, root: Path | None) -> Dataset:
    """The data that a run certified: those given, else its own, else those of that name; others are refused."""
    about = run.config.data
    if given is None and (own := run.path / OWN_INPUTS).exists():
        with reading(own, kind="the inputs of a run", remedy="restore it, or reveal the run again"):
            dataset = own_data(map_npy(own))
        refuse_other_data(run, dataset)
        return dataset
    if given is None and about.name not in datasets.names():
        raise InputError(f"the data of {run.path}, {about.name!r}, are not known by name; give --data PATH")
    if given is None:
        dataset = named_data(about.name, about.split, root, "--data", read_as(about))
    else:
        shape = (run.config.model.architecture or {}).get("input_shape")
        dataset = open_data(given, about.split, root=root, called="--data", read=read_as(about), shape=shape)
    dataset = numbered_as(dataset, run.config.class_names)
    refuse_other_data(run, dataset)
    return dataset


def own_data(inputs: npt.NDArray[Any]) -> Dataset:
    """Inputs that somebody asked a service about, (N, ...); nobody knows their labels."""
    return datasets.from_arrays(np.asarray(inputs), name="service")


def numbered_as(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """Folders with the numbers that a run gave their classes, if it knows them all; else as they are."""
    if set(dataset.class_names) < set(names) or sorted(dataset.class_names) == sorted(names):
        return datasets.with_class_names(dataset, names, said_by="the run")
    return dataset


def read_as(about: DataConfig) -> ReadOptions:
    """How the data of a run were read."""
    return ReadOptions(Preprocessing.from_json(about.preprocessing), about.label_column)


def run_model(run: Run, model: ModelSource, *, device: str | None = None, observer: Observer = SILENT) -> Classifier:
    """The model that was brought for a run, where the run was made; one of another fingerprint is refused."""
    where, classes = device or run.config.device, run.config.num_classes
    classifier = open_model(model, device=where, num_classes=classes, observer=observer)
    refuse_other_model(run, classifier.about.fingerprint)
    return classifier


def run_calibration(run: Run, given: Any, data: DataSource | None, root: Path | None) -> Tensor | None:
    """The calibration inputs of a run's int8 backend: those given, else those it names, where `data` may be found."""
    named = run.config.model.calibration
    name, _, split = str(named).rpartition(":")
    if isinstance(data, str | Path) and name == run.config.data.name:
        named = f"{data}:{split}"
    return calibration_inputs(str(run.config.backend), given, named, root)[0]


def rebuilt(
    run: Run,
    classifier: Classifier,
    *,
    seed: int | None = None,
    workers: int | None = None,
    pool: Pool | None = None,
    calibration: Tensor | None = None,
    memory: Memory | None = None,
    input_range: tuple[float, float] | None = None,
    input_shape: tuple[int, ...] | None = None,
) -> Smoothed:
    """The run's smoothed classifier (`audit.rebuild`), of a model that was brought."""
    return rebuild(
        run,
        classifier.model,
        classifier.num_classes,
        seed=seed,
        workers=workers,
        pool=pool,
        calibration=calibration,
        memory=memory,
        input_range=input_range,
        input_shape=classifier.input_shape or input_shape,
    )


def resumed_backend(earlier: Run | None, backend: str, batch_size: int | None) -> tuple[str, int | None]:
    """Backend and batch size; auto goes on with what it chose when the run was started."""
    if backend != "auto" or earlier is None:
        return backend, batch_size
    config = earlier.config
    if config.backend is None:
        raise InputError(f"{earlier.path / 'run.json'} does not say which backend it chose: give --backend")
    return config.backend, config.batch_size if batch_size is None else batch_size
