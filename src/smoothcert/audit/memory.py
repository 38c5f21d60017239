"""Runs that answer through a memory: the same memory again, and whether it answers as the run says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from smoothcert.audit.rebuild import check_data
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.memory import Memory
from smoothcert.runs import Finding, Record, Run

ROUNDING = 1e-9  # relative: what another machine may make of the distance to the centre of a region


def check_memory(run: Run, memory: Memory | None) -> None:
    """Refuse another memory than the run's, an older copy of it, none where it has one, and one where it has none."""
    _check_name(run, memory)
    owns = (record.certificate.own for record in run.records() if record.certificate is not None)
    named = max((own.region or 0 for own in owns if own is not None), default=0)
    if memory is not None and len(memory) < named:
        raise InputError(
            f"memory {memory.name} has {len(memory)} regions, and {run.path} answers from number {named}: it is an "
            "older copy, and would answer otherwise than was certified; give the memory itself"
        )


def _check_name(run: Run, memory: Memory | None) -> None:
    about = run.config.get("memory")
    if about is None:
        if memory is not None:
            raise InputError(f"{run.path} was certified without a memory; leave --memory out")
        return
    if memory is None:
        raise InputError(f"{run.path} answers through a memory; give it with --memory")
    named = about.get("id") if isinstance(about, Mapping) else None
    there = memory.owner["id"] if memory.owner is not None else None
    if there is None or there != named:
        raise InputError(f"memory {memory.name} is not the one that {run.path} answers through ({there}, not {named})")


def recall(run: Run, records: Sequence[Record], memory: Memory, data: Dataset) -> Iterator[Finding]:
    """What the memory does not bear out: its own invariant, and for every claim a region that reaches as far."""
    _check_name(run, memory)
    check_data(run, data)
    for sentence in memory.check():
        yield Finding("memory", sentence)
    for record in records:
        if record.abstained:  # a later region may answer
            continue
        if not 0 <= record.index < len(data):
            yield Finding("data", f"the data have {len(data)} inputs and not this one", record.index)
            continue
        found = memory.answer(data.tensors([record.index])[0].numpy())
        if found is None:
            yield Finding("memory", "no region of the memory contains it", record.index)
        elif found.label != record.prediction:
            sentence = f"class {record.prediction} is claimed, region {found.region} answers {found.label}"
            yield Finding("memory", sentence, record.index)
        elif found.radius * (1 + ROUNDING) < record.radius:
            sentence = f"radius {record.radius!r} is claimed, the memory answers so as far as {found.radius!r}"
            yield Finding("memory", sentence, record.index)
