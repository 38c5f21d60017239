"""Certify every classifier that an ensemble is made of, from one stream of noise and one evaluation of each member."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, ReadOptions, Subset
from smoothcert.engine import MemberCalls, Pool, Smoothed
from smoothcert.engine.backends.base import digest
from smoothcert.engine.side_by_side import certifying_each, require_fixed_draws, rows_are_independent
from smoothcert.models import ensembles
from smoothcert.models.ensembles import Ensemble, SideBySide
from smoothcert.noise import Noise
from smoothcert.procedures import Fixed, Procedure
from smoothcert.runs import Record
from smoothcert.runs.evaluations import add_evaluations
from smoothcert.runs.made import command_line
from smoothcert.workflows.certify import certify_observed
from smoothcert.workflows.choices import NoiseChoice, PoolChoice, resolve_noise, resolve_pool
from smoothcert.workflows.each import AggregationChoice, Named, classifiers_of
from smoothcert.workflows.inputs import open_both
from smoothcert.workflows.observer import LOG, SILENT, LogFile, Observer, Observers, Task, task
from smoothcert.workflows.outcome import Outcome
from smoothcert.workflows.procedure_choice import ProcedureChoice
from smoothcert.workflows.recording import run_config
from smoothcert.workflows.run import Run
from smoothcert.workflows.sources import (
    DataSource,
    Files,
    calibration_inputs,
    find_device,
    is_eight_bit,
    open_model,
    using_out,
)

ENSEMBLES = "ensembles"
"""The folder, beside the runs, of the ensemble files that they certify."""


def certify_each(
    model: Files,
    data: DataSource,
    *,
    noise: Noise | NoiseChoice,
    procedure: Procedure | ProcedureChoice | None = None,
    out: str | Path,
    aggregations: Sequence[str] = (),
    sizes: Sequence[int] | None = None,
    seed: int = 0,
    split: str = "test",
    subset: Subset | None = None,
    backend: str = "eager",
    calibration: Any = None,
    batch_size: int | None = None,
    device: str | None = None,
    workers: int | None = None,
    pool: Pool | PoolChoice | None = None,
    data_root: Path | None = None,
    read: ReadOptions | None = None,
    command: Sequence[str] = (),
    observer: Observer = SILENT,
) -> dict[str, Run]:
    """Certify all members of an ensemble, and every aggregation of its first 2, 3, ... members, by one pass.

    Every member sees every draw once, and every classifier counts its own votes. Each gets a run of its own, the folder
    `out`/NAME (`member-1`, `soft-voting-2`, ...), with the votes that certifying it alone with this seed and batch size
    gives, to the last one. The files of ensembles are in `out`/ensembles. The same call again goes on.

    The seconds in the records are equal shares of the pass; what a classifier costs alone are its draws and members.

    Args:
        model: files of the members in order, or one ensemble file.
        aggregations: names, with options as in `consensus:k=3`. Default: that of the ensemble file; soft voting.
        sizes: how many of the first members; 1 is each by itself. Default: all sizes.
        procedure: one whose draws do not depend on what they say: `Fixed`.
        batch_size: of all classifiers. Default: what suits the ensemble of all.
        data, noise, out, seed, split, subset, backend, calibration, device, workers, pool, data_root, read, command,
            observer: as of `certify`. The backend is named: `auto` would have to be measured for every classifier.
    """
    procedure = procedure.resolve() if isinstance(procedure, ProcedureChoice) else procedure or Fixed()
    require_fixed_draws(procedure)
    if backend == "auto":
        raise InputError("--each does not go with --backend auto, which measures one classifier; name a backend")
    out, chosen = Path(out), [AggregationChoice.parse(text) for text in aggregations]
    named = classifiers_of(model, chosen, sizes=sizes, device=find_device(device))
    _, dataset = open_both(
        named[-1].checkpoint, data, split, device=device, root=data_root, read=read, observer=observer
    )
    calibrating, calibrated = calibration_inputs(backend, calibration, data, data_root)
    several = SideBySide([cast(nn.Module, one.checkpoint.model) for one in named])
    smooth = partial(
        Smoothed,
        noise=resolve_noise(noise, named[-1].checkpoint.details, eight_bit=is_eight_bit(dataset)),
        seed=seed,
        batch_size=batch_size,
        workers=workers,
        pool=resolve_pool(pool),
        backend=backend,
        calibration=calibrating,
        input_range=dataset.input_range,
        input_shape=dataset.shape,
    )
    classes = open_model(named[0].checkpoint, example=dataset.tensors([0])).num_classes
    together = smooth(several, classes * len(named))
    alone = partial(smooth, num_classes=classes, batch_size=together.describe(dataset.tensors([0]))["batch"])
    subset = subset or Subset()
    _refuse_held_out(named, dataset, subset, str(data) if isinstance(data, str | Path) else dataset.name)
    together.check(dataset.tensors(subset.indices(len(dataset))[:1]))
    refuse_other_artifacts(several, together.describe(dataset.tensors([0])), alone)
    pass_ = _Pass(together, alone, procedure, dataset, [len(places) for places in several.places])
    for one in named:
        with using_out(out):
            pass_.plan(one, subset, calibrated, out, command_line(command))
    pass_.run(observer, out)
    return {one.named.name: one.run for one in pass_.planned}


@dataclass(frozen=True)
class _Planned:
    """A classifier, its run, and which of all members' calls are its own."""

    named: Named
    run: Run
    calls: slice

    @property
    def adaptive(self) -> bool:
        return isinstance(self.named.checkpoint.model, Ensemble) and self.named.checkpoint.model.adaptive

    def add_calls(self, asked: Sequence[int]) -> None:
        model = self.named.checkpoint.model
        # An ensemble that is a member of another one is asked as a whole.
        if isinstance(model, Ensemble) and len(asked) == len(model.members) and any(asked):
            add_evaluations(self.run.path, asked, model.cost)


class _Pass:
    """All classifiers over all inputs; `alone` smooths one of them as it is run by itself."""

    def __init__(
        self,
        together: Smoothed,
        alone: Callable[..., Smoothed],
        procedure: Procedure,
        dataset: Dataset,
        members: Sequence[int],
    ) -> None:
        self._members = members
        self._together, self._alone, self._procedure, self._data = together, alone, procedure, dataset
        self.planned: list[_Planned] = []
        self._asked = 0

    def plan(self, named: Named, subset: Subset, calibration: str | None, out: Path, command: str) -> None:
        """Begin the run of a classifier, or go on with it."""
        smoothed = self._alone(named.checkpoint.model)  # dropped at once: what it is compiled to would fill the memory
        opened = open_model(named.checkpoint, example=self._data.tensors([0]))
        about = replace(opened.about, files=named.file_names, calibration=calibration)
        config = run_config(smoothed, self._procedure, self._data, subset, about, check=False)
        run = Run.start(out / named.name, config, command=command)
        run.data = self._data
        named.write(out / ENSEMBLES)
        members = self._members[len(self.planned)]
        self.planned.append(_Planned(named, run, slice(self._asked, self._asked + members)))
        self._asked += members

    def run(self, observer: Observer, out: Path) -> None:
        """Certify what is left of all runs."""
        todo = [one for one in self.planned if len(one.run.records()) < len(one.run.planned)]
        if not todo:
            return
        first = self._data.tensors([self.planned[0].run.planned[0]])
        apart = [one for one in todo if one.adaptive]
        # Which draws share a batch of a member then depends on who is settled: it must not matter.
        apart = [] if not apart or rows_are_independent(self._together, first) else apart
        shared = [one for one in self.planned if one not in apart]
        if any(one in shared for one in todo):
            self._run_shared(shared, Observers(observer, LogFile(out / LOG)))
        for one in apart:
            calls = MemberCalls()
            smoothed = self._alone(one.named.checkpoint.model)
            certify_observed(one.run, smoothed, self._procedure, self._data, observer, calls)
            one.add_calls(calls.per_member)

    def _run_shared(self, shared: Sequence[_Planned], observer: Observer) -> None:
        calls, per_input = MemberCalls(), self._procedure.most_draws()
        with ExitStack() as stack:
            writers = {one.named.name: stack.enter_context(one.run.writing()) for one in shared}
            recorded = {one.named.name: {record.index for record in one.run.records()} for one in shared}
            done = set.intersection(*recorded.values())
            planned = shared[0].run.planned
            outcome = Outcome(len(planned), per_input)
            for record in shared[-1].run.records():
                outcome.add(record)
            with task(
                observer, "certify", total=per_input * len(planned), done=per_input * len(done), note=str(outcome)
            ) as under_way:
                for index, found in self._certificates([i for i in planned if i not in done], under_way, calls):
                    for one in shared:
                        if index not in recorded[one.named.name]:
                            writers[one.named.name].append(found[one.named.name])
                    outcome.add(found[shared[-1].named.name])
                    under_way.reach(under_way.done, note=str(outcome))
        for one in shared:
            one.add_calls(calls.per_member[one.calls])

    def _certificates(
        self, todo: Sequence[int], under_way: Task, calls: MemberCalls
    ) -> Iterator[tuple[int, dict[str, Record]]]:
        """(index, the record of every classifier by name), input by input."""
        compiled = self._together.compile(self._data.tensors([0]).shape[1:])
        descriptions = [one.run.config.classifier for one in self.planned]
        last = time.perf_counter()
        for part in self._data.parts(todo):  # data may be larger than memory
            answers = certifying_each(
                self._together,
                self._data.tensors(part),
                self._procedure,
                descriptions,
                on_draws=under_way.advance,
                member_calls=calls,
                compiled=compiled,
            )
            for row, certificates in answers:
                now = time.perf_counter()
                index, seconds = part[row], (now - last) / len(certificates)
                last, label = now, int(self._data.labels[part[row]])
                pairs = zip(self.planned, certificates, strict=True)
                yield index, {one.named.name: Record.of(index, label, found, seconds) for one, found in pairs}


def refuse_other_artifacts(several: SideBySide, found: Mapping[str, Any], alone: Callable[..., Smoothed]) -> None:
    """Refuse a backend that would make something else of a member when it is run alone: votes would not be its own.

    What is built of a member is kept on disk and used again, so this happens only where nothing can be kept.
    """
    if "digest" not in found["backend"]:
        return
    digests = [alone(member).describe()["backend"].get("digest") for member in several.members]
    if digest(json.dumps(digests).encode()) != found["backend"]["digest"]:
        raise InputError(
            f"backend {found['backend']['name']} builds the members anew each time, and otherwise; make the folder of "
            "the cache writable ($SMOOTHCERT_CACHE), or take --backend eager"
        )


def _refuse_held_out(named: Sequence[Named], dataset: Dataset, subset: Subset, data: str) -> None:
    """Inputs that settled an ensemble would flatter it."""
    held = {one for each in named for one in each.checkpoint.details.get("held_out", ())}
    if held:
        for part in dataset.parts(subset.indices(len(dataset))):
            ensembles.refuse_overlap(held, dataset.tensors(part), f"--data {data}")
