"""Certify a subset of a data set into a run, here and now, going on where an earlier attempt stopped."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy
import scipy

import smoothcert
from smoothcert.certify import Procedure
from smoothcert.datasets import Dataset, Subset
from smoothcert.engine import Smoothed
from smoothcert.errors import InputError
from smoothcert.noise.streams import input_id
from smoothcert.runs import Record, Run


def run_config(
    smoothed: Smoothed, procedure: Procedure, data: Dataset, subset: Subset, model: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything that decides what a run's records will be: two runs with equal configurations have equal records."""
    if data.num_classes > smoothed.num_classes:
        raise InputError(
            f"data {data.name} has {data.num_classes} classes but the model answers {smoothed.num_classes}; "
            "certify the data set that the model was trained for"
        )
    noise, indices = smoothed.noise.for_inputs(data.tensors([0])), subset.indices(len(data))
    # What could never work is refused now, before anything is written.
    next(procedure.certify(noise))
    smoothed.check(data.tensors(indices[:1]))
    return {
        "model": dict(model),
        "classifier": smoothed.describe(),
        "num_classes": smoothed.num_classes,
        "noise": noise.describe(),
        "procedure": procedure.describe(),
        "fixed_draws": procedure.fixed_draws(),
        "seed": smoothed.seed,
        "data": {
            "name": data.name,
            "split": data.split,
            "size": len(data),
            "fingerprint": data.fingerprint,
            "subset": subset.to_json(),
            "distinct": len({input_id(x) for x in data.tensors(indices)}),  # equal inputs have equal noise and votes
        },
        "indices": indices,
        "labels": [int(label) for label in data.labels[indices]],
        "versions": {
            "smoothcert": smoothcert.__version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
        },
    }


def certify_into(
    run: Run,
    smoothed: Smoothed,
    procedure: Procedure,
    data: Dataset,
    *,
    on_draws: Callable[[int], None] = lambda _: None,
    on_record: Callable[[Record], None] = lambda _: None,
) -> None:
    """Certify what is planned and not recorded yet; each record is on disk before the next is announced.

    Another model, noise, procedure or data set than the run's is refused, and so is going on with a model that has no
    fingerprint: nobody could tell whether it is the same.
    """
    given = {
        "classifier": smoothed.describe(),
        "noise": smoothed.noise.for_inputs(data.tensors([0])).describe(),
        "procedure": procedure.describe(),
        "seed": smoothed.seed,
        "data": {**run.config["data"], "fingerprint": data.fingerprint},
    }
    for name, value in given.items():
        if run.config[name] != value:
            raise InputError(f"{run.path} was started with another {name}; certify into a folder of its own")
    with run.writing() as writer:
        recorded = {record.index for record in run.records()}
        if recorded and smoothed.describe()["fingerprint"] is None:
            raise InputError(
                f"{run.path} cannot be resumed: its model is a function without a fingerprint, so nobody can tell "
                "whether it is the same; certify into a new folder, or give the function a `fingerprint` attribute"
            )
        todo = [index for index in run.planned if index not in recorded]
        if not todo:
            return
        last = time.perf_counter()
        for row, certificate in smoothed.certifying(data.tensors(todo), procedure, on_draws=on_draws):
            now = time.perf_counter()
            record = Record.of(todo[row], int(data.labels[todo[row]]), certificate, now - last)
            last = now
            writer.append(record)
            on_record(record)
