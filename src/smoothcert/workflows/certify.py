"""Certify a subset of a data set into a run, here and now, going on where an earlier attempt stopped."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import scipy

import smoothcert
from smoothcert.core.errors import InputError
from smoothcert.core.randomness import input_id
from smoothcert.datasets import Dataset, Subset
from smoothcert.engine import Compiled, MemberCalls, Smoothed
from smoothcert.procedures import Procedure
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
    compiled = _compiled(smoothed, data)
    return {
        "model": dict(model),
        "classifier": compiled.description,
        "num_classes": smoothed.num_classes,
        "noise": noise.describe(),
        **_search(smoothed),
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
        **_memory(smoothed, compiled, data),  # last: it makes the memory if it is not there
    }


def _compiled(smoothed: Smoothed, data: Dataset) -> Compiled:
    """The model as it is run on these data."""
    return smoothed.compile(data.tensors([0]).shape[1:])


def _memory(smoothed: Smoothed, compiled: Compiled, data: Dataset) -> dict[str, Any]:
    """Which memory the run answers through; nothing if through none."""
    if smoothed.memory is None:
        return {}
    noise = smoothed.noise.for_inputs(data.tensors([0])).describe()
    return {"memory": {"id": smoothed.memory.claim(compiled.description, noise, compiled.shape)}}


def _check_remembered(run: Run, smoothed: Smoothed, data: Dataset, records: Sequence[Record]) -> None:
    """Refuse to go on with an older copy of the memory: it has the right name, and not what was claimed last."""
    claims = [record for record in records if not record.abstained]
    if smoothed.memory is None or not claims:
        return
    found = smoothed.memory.answer(data.tensors([claims[-1].index])[0].numpy())
    if found is None or found.label != claims[-1].prediction:
        raise InputError(
            f"{run.path} cannot be resumed: the memory does not answer input {claims[-1].index} as it is recorded; "
            "give the memory itself, not an older copy"
        )


def _search(smoothed: Smoothed) -> dict[str, Any]:
    """How each input gets its own strength; nothing where all have one."""
    return {} if smoothed.search is None else {"sigma_search": smoothed.search.describe()}


def certify_into(
    run: Run,
    smoothed: Smoothed,
    procedure: Procedure,
    data: Dataset,
    *,
    on_draws: Callable[[int], None] = lambda _: None,
    on_record: Callable[[Record], None] = lambda _: None,
    member_calls: MemberCalls | None = None,
) -> None:
    """Certify what is planned and not recorded yet; each record is on disk before the next is announced.

    Another model, noise, procedure, data set or memory than the run's is refused, and so is going on with a model that
    has no fingerprint: nobody could tell whether it is the same. A region is safe in the memory before its record is
    written: after a kill between the two, inserting it again changes nothing. `member_calls` counts what the members of
    an ensemble are asked.
    """
    compiled = _compiled(smoothed, data)
    given = {
        "classifier": compiled.description,
        "noise": smoothed.noise.for_inputs(data.tensors([0])).describe(),
        "procedure": procedure.describe(),
        "seed": smoothed.seed,
        "data": {**run.config["data"], "fingerprint": data.fingerprint},
        "sigma_search": _search(smoothed).get("sigma_search"),
    }
    for name, value in given.items():
        if run.config.get(name) != value:
            raise InputError(f"{run.path} was started with another {name}; certify into a folder of its own")
    if run.config.get("memory") != _memory(smoothed, compiled, data).get("memory"):
        raise InputError(f"{run.path} was started with another memory; certify into a folder of its own")
    with run.writing() as writer:
        records = run.records()
        recorded = {record.index for record in records}
        _check_remembered(run, smoothed, data, records)
        if recorded and compiled.description["fingerprint"] is None:
            raise InputError(
                f"{run.path} cannot be resumed: its model is a function without a fingerprint, so nobody can tell "
                "whether it is the same; certify into a new folder, or give the function a `fingerprint` attribute"
            )
        todo = [index for index in run.planned if index not in recorded]
        if not todo:
            return
        last = time.perf_counter()
        certificates = smoothed.certifying(
            data.tensors(todo), procedure, on_draws=on_draws, member_calls=member_calls, compiled=compiled
        )
        for row, certificate in certificates:
            now = time.perf_counter()
            record = Record.of(todo[row], int(data.labels[todo[row]]), certificate, now - last)
            last = now
            writer.append(record)
            on_record(record)
