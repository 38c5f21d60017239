"""Ensembles: a backend prepares each member by itself, and the ensemble's own code asks the members' runners.

One way for all aggregations: control flow that depends on the data cannot be exported, and what was made of a member
serves in every ensemble that it is in. benchmarks/ensembles.py compares it with one graph of all members, and with
members of one architecture stacked into one (torch.vmap), which is slower on a CPU: .5 to .8 times as fast.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK
from smoothcert.engine.backends.base import (
    BackendTask,
    Executable,
    UnableError,
    digest,
    in_calls_of,
    rows_are_independent,
)
from smoothcert.models import fingerprint
from smoothcert.models.ensembles import Ensemble, SideBySide, SoftmaxVoting

GATHERED = 32
"""Batches of members that an adaptive ensemble is given at once: what few rows are left of each fill batches again."""
MOST_BYTES = 2**25  # of them


class EnsembleRunner:
    """A runner of an ensemble, for one thread. `member_calls` counts the rows that each member was asked about."""

    def __init__(self, ensemble: Ensemble, runners: Sequence[Model], member_calls: list[int] | None = None) -> None:
        self._ensemble, self._runners = ensemble, runners
        self.member_calls = [0] * len(runners) if member_calls is None else member_calls

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...)."""
        return self._ensemble.aggregate([partial(self._ask, number) for number in range(len(self._runners))], x)

    def with_weights(self, weights: Sequence[float]) -> EnsembleRunner:
        """The same members with other weights; of ensembles that have some."""
        assert isinstance(self._ensemble, SoftmaxVoting)
        return EnsembleRunner(self._ensemble.with_weights(weights), self._runners, self.member_calls)

    def in_calls_of(self, rows: int) -> EnsembleRunner | None:
        """The same ensemble with members in calls of `rows` rows; None if one of them runs in one shape only."""
        sized = [in_calls_of(runner, rows) for runner in self._runners]
        runners = [runner for runner in sized if runner is not None]
        return EnsembleRunner(self._ensemble, runners, self.member_calls) if len(runners) == len(sized) else None

    def _ask(self, number: int, x: Tensor) -> Tensor:
        self.member_calls[number] += len(x)
        return self._runners[number](x)


class SideBySideRunner:
    """A runner of several classifiers, for one thread: members are run once, and classifiers are told their scores.

    A classifier that asks a member about some rows only is told those of them. `member_calls` counts what each asked,
    one after another: as many as it would have asked alone.
    """

    def __init__(self, several: SideBySide, runners: Sequence[Model], member_calls: list[int] | None = None) -> None:
        self._several, self._runners = several, runners
        self.member_calls = [0] * sum(map(len, several.places)) if member_calls is None else member_calls

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, J * C) of x (B, ...)."""
        told, slots = [_Told(runner, x) for runner in self._runners], itertools.count()
        found = []
        for number, places in enumerate(self._several.places):
            members = [partial(self._ask, next(slots), told[place]) for place in places]
            found.append(self._several.scores(number, members, x))
        return torch.cat(found, dim=1)

    def in_calls_of(self, rows: int) -> SideBySideRunner | None:
        """The same with members in calls of `rows` rows; None if one of them runs in one shape only."""
        sized = [in_calls_of(runner, rows) for runner in self._runners]
        runners = [runner for runner in sized if runner is not None]
        return SideBySideRunner(self._several, runners, self.member_calls) if len(runners) == len(sized) else None

    def _ask(self, slot: int, told: _Told, x: Tensor) -> Tensor:
        self.member_calls[slot] += len(x)
        return told(x)


class _Told:
    """A member that was run on all rows: its scores of them, and of any of them; what else it is asked, it is run on.

    Rows are known by their content: equal rows have equal scores.
    """

    def __init__(self, runner: Model, x: Tensor) -> None:
        self._runner, self._x, self._scores = runner, x, runner(x.clone())
        self._numbers: dict[bytes, int] = {}

    def __call__(self, x: Tensor) -> Tensor:
        if torch.equal(x, self._x):
            return self._scores.clone()
        if not self._numbers:
            self._numbers = {row: number for number, row in enumerate(_contents(self._x))}
        rows = [self._numbers.get(row) for row in _contents(x)]
        known = [row for row in rows if row is not None]
        if len(known) < len(rows):
            return self._runner(x)
        return self._scores[torch.tensor(known, dtype=torch.long, device=self._scores.device)]


def _contents(x: Tensor) -> list[bytes]:
    return [row.tobytes() for row in x.detach().cpu().numpy()]


def prepare(prepare_member: Callable[[BackendTask], Executable], task: BackendTask) -> Executable:
    """Prepare every member in the task's shape. Members share the calibration inputs, too."""
    ensemble = task.model
    assert isinstance(ensemble, Ensemble)
    parts: list[Executable] = []
    for number, member in enumerate(ensemble.members, start=1):
        try:
            parts.append(prepare_member(dataclasses.replace(task, model=member, fingerprint=fingerprint(member))))
        except UnableError as reason:
            raise UnableError(f"its member {number}: {reason}") from reason

    def new_runner() -> EnsembleRunner | SideBySideRunner:
        runners = [part.new_runner() for part in parts]
        if isinstance(ensemble, SideBySide):
            return SideBySideRunner(ensemble, runners)
        return EnsembleRunner(ensemble, runners)

    sizes = min(part.sizes for part in parts)
    executable = Executable(new_runner, _description([part.description for part in parts]), sizes=sizes)
    if not ensemble.adaptive or task.device.type != "cpu":
        return executable
    if not task.shape:
        return dataclasses.replace(executable, rows=min(BLOCK, task.rows))
    x = task.probe()
    dependent = sum(not rows_are_independent(part.new_runner(), x, padded=True) for part in parts)
    return dataclasses.replace(executable, rows=_rows(task, dependent), note=_slower(dependent, len(parts)))


def _rows(task: BackendTask, dependent: int) -> int:
    """Rows per call of an adaptive ensemble, given how many members' scores depend on the company of a row.

    Members see one shape always, but which rows share a batch depends on who is settled. Where a row's scores are the
    same to the last bit in any company, as many batches as fit are taken at once, and their open rows gathered. Else
    few at a time: their company is of their own request, so that votes never depend on what else is certified.
    """
    if dependent:
        return min(BLOCK, task.rows)
    fit = MOST_BYTES // (4 * torch.Size(task.shape).numel())
    return max(task.rows, BLOCK, min(GATHERED * task.rows, fit) // BLOCK * BLOCK)


def _slower(dependent: int, members: int) -> str | None:
    """What the user should know where rows cannot be gathered: it is a matter of the processor and its kernels."""
    if not dependent:
        return None
    return (
        f"on this processor the last bits of the scores of {dependent} of {members} members depend on which rows share "
        f"a batch, so every {BLOCK} draws of a request are run by themselves; votes are as exact, and asking fewer "
        "members saves less time"
    )


def _description(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all members share, and a digest of their artifacts, in order."""
    same = {key: value for key, value in members[0].items() if all(key in m and m[key] == value for m in members)}
    names = sorted({str(member["name"]) for member in members})
    if len(names) > 1:  # asked for by the name of torch's own, each is run by its own again
        same |= {"name": "eager", "members": ",".join(names)}
    same["precision"] = ",".join(sorted({str(member["precision"]) for member in members}))
    if all("agreement" in member for member in members):
        same["agreement"] = min(member["agreement"] for member in members)
    if all("digest" in member for member in members):
        same["digest"] = digest(json.dumps([member["digest"] for member in members]).encode())
    return same
