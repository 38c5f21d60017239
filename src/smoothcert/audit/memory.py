"""Runs that answer through a memory: the same memory again, whether it answers as the run says, and by what right.

A region is as good as the draws behind it. So every answer must rest on a region that a record of the run made, of the
class and no larger than the radius that this record's own draws show; votes and draws are checked elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.audit.rebuild import check_data, refuse_other_data
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.memory import Memory
from smoothcert.memory.distance import distances, tolerance
from smoothcert.memory.rule import Neighbour
from smoothcert.procedures import FromDraws
from smoothcert.runs import Finding, Record, Run

ROUNDING = 1e-9  # relative: what another machine may make of the distance to the centre of a region


def refuse_other_memory(run: Run, memory: Memory | None) -> None:
    """Refuse another memory than the run's, an older copy of it, none where it has one, and one where it has none."""
    _refuse_other_name(run, memory)
    said = (record.claim.from_draws for record in run.records() if record.claim is not None)
    named = max((one.region or 0 for one in said if one is not None), default=0)
    if memory is not None and len(memory) < named:
        raise InputError(
            f"memory {memory.name} has {len(memory)} regions, and {run.path} answers from number {named}: it is an "
            "older copy, and would answer otherwise than was certified; give the memory itself"
        )


def _refuse_other_name(run: Run, memory: Memory | None) -> None:
    named = run.config.memory
    if named is None:
        if memory is not None:
            raise InputError(f"{run.path} was certified without a memory; leave --memory out")
        return
    if memory is None:
        raise InputError(f"{run.path} answers through a memory; give it with --memory")
    there = memory.owner["id"] if memory.owner is not None else None
    if there is None or there != named:
        raise InputError(f"memory {memory.name} is not the one that {run.path} answers through ({there}, not {named})")


def check_against_memory(
    run: Run, records: Sequence[Record], memory: Memory, data: Dataset, *, doubtful: Collection[int | None] = ()
) -> Iterator[Finding]:
    """What the memory does not bear out: its own invariant, and for every claim a region that a record made.

    `records` are all that were audited; regions made by those of the inputs `doubtful`, about which something was found
    already, back nothing.
    """
    _refuse_other_name(run, memory)
    refuse_other_data(run, data)
    yield from check_data(run, data)
    broken = [Finding("memory", sentence) for sentence in memory.check()]
    yield from broken
    if broken:  # regions that cannot be read, or overlap, bear nothing out
        return
    answers = [answer for record in records if (answer := _answer(record)) is not None]
    regions = _named_regions(memory, answers, data)
    sound = (answer for answer in answers if answer.record.index not in doubtful)
    made = {answer.region for answer in sound if _made_by(answer, regions.get(answer.region))}
    for answer in answers:
        if not 0 <= answer.record.index < len(data):
            yield Finding("data", f"the data have {len(data)} inputs and not this one", answer.record.index)
        elif wrong := _not_borne_out(answer, regions.get(answer.region), made, memory, data):
            yield Finding("memory", wrong, answer.record.index)


@dataclass(frozen=True)
class _Answer:
    """A claim through the memory: what was recorded, what the draws said, and the region that answers."""

    record: Record
    said: FromDraws
    region: int


@dataclass(frozen=True)
class _Region:
    """A stored region, and how far each input that names it is from its centre (none: not an input of the data)."""

    label: int
    radius: float
    near: Mapping[int, Neighbour]  # by index of the input


def _answer(record: Record) -> _Answer | None:
    said = None if record.claim is None else record.claim.from_draws
    if record.abstained or said is None or said.region is None:  # of an abstention a later region may answer
        return None
    return _Answer(record, said, said.region)


def _named_regions(memory: Memory, answers: Sequence[_Answer], data: Dataset) -> dict[int, _Region]:
    """The regions that answers name, with the distances of the inputs that name them; the store is read once."""
    asked: dict[int, list[int]] = {}
    for answer in answers:
        if 0 <= answer.record.index < len(data):
            asked.setdefault(answer.region, []).append(answer.record.index)
    assert memory.owner is not None
    norm, dim = str(memory.owner["norm"]), math.prod(memory.owner["shape"])
    found: dict[int, _Region] = {}
    for region, center in memory.regions():
        if region.id in asked:
            indices = asked[region.id]
            inputs = data.tensors(indices).numpy().reshape(len(indices), -1)
            apart = distances(np.asarray(center), inputs, norm).tolist()
            near = {
                index: Neighbour(region.id, region.label, region.radius, distance, tolerance(dim))
                for index, distance in zip(indices, apart, strict=True)
            }
            found[region.id] = _Region(region.label, region.radius, near)
    return found


def _made_by(answer: _Answer, region: _Region | None) -> bool:
    """Whether the region is what this record's own draws show: around its input, of its class, and no larger."""
    near = None if region is None else region.near.get(answer.record.index)
    if region is None or near is None or near.distance != 0:
        return False
    return region.label == answer.said.label and region.radius <= answer.said.radius


def _not_borne_out(answer: _Answer, region: _Region | None, made: set[int], memory: Memory, data: Dataset) -> str:
    """Why the memory does not bear out what is claimed at an input, or ""."""
    record = answer.record
    if region is None:
        return f"region {answer.region} is said to answer, and the memory has no such region"
    if wrong := _not_claimed(answer, region):
        return wrong
    if answer.region not in made:
        if region.near[record.index].distance == 0 and not _made_by(answer, region):
            return (
                f"region {answer.region} has class {region.label} and radius {region.radius!r} around this input, "
                f"whose draws show class {answer.said.label} and {answer.said.radius!r}"
            )
        return f"the answer rests on region {answer.region}, which no record of this run that holds made"
    found = memory.answer(data.tensors([record.index])[0].numpy())
    if found is None or found.label != record.prediction:
        answered = "nothing" if found is None else f"class {found.label}"
        return f"class {record.prediction} is claimed, the memory answers {answered}"
    return ""


def _not_claimed(answer: _Answer, region: _Region) -> str:
    """Why the region that is said to answer does not say what is claimed, or ""."""
    record, near = answer.record, region.near[answer.record.index]
    if region.label != record.prediction:
        return f"class {record.prediction} is claimed, region {answer.region} answers {region.label}"
    if not near.inside:
        return f"region {answer.region} is said to contain it, and does not"
    if near.left * (1 + ROUNDING) < record.radius:
        return f"radius {record.radius!r} is claimed, the memory answers so as far as {near.left!r}"
    return ""
