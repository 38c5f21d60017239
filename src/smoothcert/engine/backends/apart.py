"""Ensembles: a backend prepares each member by itself, and the ensemble's own code asks the members' runners.

One way for all aggregations: control flow that depends on the data cannot be exported, and what was made of a member
serves in every ensemble that it is in. benchmarks/ensembles.py compares it with one graph of all members, and with
members of one architecture stacked into one (torch.vmap), which is slower on a CPU: .5 to .8 times as fast.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothcert.architectures import fingerprint
from smoothcert.architectures.modules import Model
from smoothcert.engine.backends.base import Job, Prepared, UnableError, digest
from smoothcert.ensembles import Ensemble
from smoothcert.noise.streams import BLOCK, generator

GATHERED = 32
"""Batches of members that an adaptive ensemble is given at once: what few rows are left of each fill batches again."""
MOST_BYTES = 2**25  # of them


class Asking:
    """A runner of an ensemble, for one thread. `asked` counts the rows that each member was asked about."""

    def __init__(self, ensemble: Ensemble, runners: Sequence[Model]) -> None:
        self._ensemble, self._runners = ensemble, runners
        self.asked = [0] * len(runners)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...)."""
        return self._ensemble.aggregate([partial(self._ask, number) for number in range(len(self._runners))], x)

    def _ask(self, number: int, x: Tensor) -> Tensor:
        self.asked[number] += len(x)
        return self._runners[number](x)


def prepare(prepare_member: Callable[[Job], Prepared], job: Job) -> Prepared:
    """Prepare every member in the job's shape. Members share the calibration inputs, too."""
    ensemble = job.model
    assert isinstance(ensemble, Ensemble)
    parts: list[Prepared] = []
    for number, member in enumerate(ensemble.members, start=1):
        try:
            parts.append(prepare_member(dataclasses.replace(job, model=member, fingerprint=fingerprint(member))))
        except UnableError as reason:
            raise UnableError(f"its member {number}: {reason}") from reason

    def new_runner() -> Asking:
        return Asking(ensemble, [part.new_runner() for part in parts])

    prepared = Prepared(new_runner, _description([part.description for part in parts]))
    if not ensemble.adaptive or job.device.type != "cpu":
        return prepared
    if not job.shape:
        return dataclasses.replace(prepared, rows=min(BLOCK, job.rows))
    jealous = sum(not _alike(job, part.new_runner()) for part in parts)
    return dataclasses.replace(prepared, rows=_rows(job, jealous), note=_slower(jealous, len(parts)))


def _rows(job: Job, jealous: int) -> int:
    """Rows per call of an adaptive ensemble, given how many members are not alike in every company.

    Members see one shape always, but which rows share a batch depends on who is settled. Where a row's scores are the
    same to the last bit in any company, as many blocks as fit are taken at once, and their open rows gathered. Else one
    block: its company is its own rows, so that votes never depend on what else is certified.
    """
    if jealous:
        return min(BLOCK, job.rows)
    fit = MOST_BYTES // (4 * torch.Size(job.shape).numel())
    return max(job.rows, BLOCK, min(GATHERED * job.rows, fit) // BLOCK * BLOCK)


def _slower(jealous: int, members: int) -> str | None:
    """What the user should know where rows cannot be gathered: it is a matter of the processor and its kernels."""
    if not jealous:
        return None
    return (
        f"on this processor the last bits of the scores of {jealous} of {members} members depend on which rows share a "
        f"batch, so each block of {BLOCK} draws is run by itself; votes are as exact, and asking fewer members saves "
        "less time"
    )


def _alike(job: Job, run: Model) -> bool:
    """Are the scores of rows the same, to the last bit, in another order and with others beside them?"""
    x = job.probe()
    scores, order = run(x.clone()), torch.randperm(len(x), generator=generator(0, "", "order", 0))
    few = order[: len(x) // 3 + 1]
    return torch.equal(run(x[order]), scores[order]) and torch.equal(run(x[few]), scores[few])


def _description(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all members share, and a digest of their artifacts, in order."""
    same = {key: value for key, value in members[0].items() if all(key in m and m[key] == value for m in members)}
    same["precision"] = ",".join(sorted({str(member["precision"]) for member in members}))
    if all("agreement" in member for member in members):
        same["agreement"] = min(member["agreement"] for member in members)
    if all("digest" in member for member in members):
        same["digest"] = digest(json.dumps([member["digest"] for member in members]).encode())
    return same
