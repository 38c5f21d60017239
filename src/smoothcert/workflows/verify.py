"""Whether a run holds: from its votes alone, or with the model that made them, or with its memory."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.audit import Audit, audit_run
from smoothcert.core.errors import InputError
from smoothcert.runs import Finding, Run
from smoothcert.workflows.memory import opened_memory
from smoothcert.workflows.observer import SILENT, Observer, task

if TYPE_CHECKING:
    from smoothcert.engine import Pool
    from smoothcert.memory import Memory
    from smoothcert.workflows.brought import AnyModel
    from smoothcert.workflows.choices import PoolChoice
    from smoothcert.workflows.sources import DataSource

LEVEL_1 = "level 1 (votes, bounds, boundaries, rounding)"


@dataclass(frozen=True)
class Verification:
    """What was checked, and what of it does not hold."""

    planned: int
    recorded: int
    holding: int  # planned inputs that are recorded without a finding
    unbacked: int  # answers of a memory that was not asked
    findings: tuple[Finding, ...]
    levels: tuple[str, ...]  # what was checked, in words
    notes: tuple[str, ...]
    exact: bool  # numbers were compared to the last bit, else to 1e-12
    pick: int | None  # the seed with which the share and fresh draws were chosen
    run: str = ""  # the digest of the run's last line: what was checked is the run up to there

    @property
    def holds(self) -> bool:
        """Nothing was found, and no answer rests on a memory that was not asked."""
        return not self.findings and not self.unbacked

    @property
    def status(self) -> int:
        """0, or 1 if it does not hold: what a command ends with."""
        return int(not self.holds)

    @property
    def sentence(self) -> str:
        """The result in words."""
        compared = "to the last bit" if self.exact else "to 1e-12, because numpy or scipy are not those of the run"
        return f"{self.holding} of {self.planned} records hold: {', '.join(self.levels)}; numbers compared {compared}"

    def __str__(self) -> str:
        found = [f"{finding.where}: {finding.sentence}" for finding in self.findings]
        return "\n".join([*found, *(f"note: {note}" for note in self.notes), self.sentence])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "run": self.run,
            "holds": self.holds,
            "sentence": self.sentence,
            "planned": self.planned,
            "recorded": self.recorded,
            "holding": self.holding,
            "levels": list(self.levels),
            "exact": self.exact,
            "pick": self.pick,
            "notes": list(self.notes),
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass
class _Further:
    """What the levels beyond the first found, and in words what they did."""

    findings: list[Finding] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pick: int | None = None


def verify(
    run: Run | str | Path,
    *,
    model: AnyModel | None = None,
    data: DataSource | None = None,
    data_root: Path | None = None,
    share: float = 1.0,
    fresh: int | None = None,
    pick: int | None = None,
    device: str | None = None,
    workers: int | None = None,
    pool: Pool | PoolChoice | None = None,
    calibration: Any = None,
    memory: Memory | str | Path | None = None,
    observer: Observer = SILENT,
) -> Verification:
    """Check a run. Nothing is written, and nothing raises for what is in the records: it is found and listed.

    Level 1 computes every claim again from its votes. With the `model` (see `certify`; another than the run's is
    refused) level 2 draws the votes again; with `fresh`, level 3 makes so many fresh draws per input and tests whether
    the votes agree. With the `memory` of the run every claim is asked of it.

    Args:
        run: the run, or its folder.
        model: what was certified: a model, or a `Routed` or `RoutedModels`. Default: its votes are taken as they are.
        data: what was certified. Default: the data of the run's name.
        share: of the inputs that are drawn again, chosen at random.
        fresh: draws of level 3, per input. Default: no level 3.
        pick: seed of the share and of fresh draws. Default: random, and in the notes.
        memory: a `Memory`, or where it is. Default: not asked.
        data_root, device, workers, pool, calibration, observer: as of `certify`.
    """
    opened = run if isinstance(run, Run) else Run.open(Path(run))
    only_drawing = fresh is not None or share != 1.0 or calibration is not None
    if model is None and (only_drawing or (data is not None and memory is None)):
        raise InputError("--share, --fresh, --calibration and --data need the model: give --model CKPT")
    with opened_memory(memory, there=True) as remembered:
        audit = audit_run(opened)
        further = _Further()
        if model is not None:
            drawing = _Drawing(model, data, data_root, share, fresh, device, workers, pool, calibration)
            further = _draw(opened, audit, drawing, secrets.randbits(63) if pick is None else pick, observer)
        if remembered is not None:
            _ask_memory(opened, audit, further, remembered, data, data_root)
        elif opened.config.memory is not None:
            further.notes += _without_memory(audit)
    return Verification(
        planned=audit.planned,
        recorded=len(audit.records),
        holding=audit.holding(further.findings, memory_asked=memory is not None),
        unbacked=0 if memory is not None else len(audit.of_memory),
        findings=(*audit.findings, *further.findings),
        levels=(LEVEL_1, *further.levels),
        notes=tuple(further.notes),
        exact=audit.exact,
        pick=further.pick,
        run=last_digest(opened),
    )


def last_digest(run: Run) -> str:
    """The digest of a run's last line, which follows from all lines and the configuration."""
    lines = run.lines()
    return lines[-1].digest if lines else run.digest


def _ask_memory(
    run: Run, audit: Audit, further: _Further, memory: Memory, data: DataSource | None, root: Path | None
) -> None:
    """Ask the memory about every claim."""
    from smoothcert.audit.memory import check_against_memory  # noqa: PLC0415
    from smoothcert.workflows.of_run import run_data  # noqa: PLC0415

    doubtful = {finding.index for finding in (*audit.findings, *further.findings)}
    dataset = run_data(run, data, root)
    further.findings += check_against_memory(run, audit.records, memory, dataset, doubtful=doubtful)
    further.levels.append(f"the memory ({len(memory)} regions) answers so")


def _without_memory(audit: Audit) -> list[str]:
    notes = ["what was checked is what the draws said, not what the memory made of it: give --memory"]
    if audit.of_memory:
        notes.append(
            f"{len(audit.of_memory)} answers rest on regions of the memory and not on their own draws: without "
            "--memory they do not count as holding"
        )
    return notes


@dataclass(frozen=True)
class _Drawing:
    """What is drawn, and with what."""

    model: AnyModel
    data: DataSource | None
    data_root: Path | None
    share: float
    fresh: int | None
    device: str | None
    workers: int | None
    pool: Pool | PoolChoice | None
    calibration: Any


def _draw(run: Run, audit: Audit, options: _Drawing, seed: int, observer: Observer) -> _Further:
    """Levels 2 and 3."""
    from smoothcert.audit.fresh import draw_fresh  # noqa: PLC0415 (level 1 needs no torch)
    from smoothcert.audit.redraw import redraw, sample_records  # noqa: PLC0415
    from smoothcert.workflows.brought import bring  # noqa: PLC0415
    from smoothcert.workflows.choices import resolve_pool  # noqa: PLC0415
    from smoothcert.workflows.of_run import run_data  # noqa: PLC0415

    pool = resolve_pool(options.pool)
    records = sample_records(audit.records, options.share, seed)
    brought = bring(run, options.model, device=options.device, observer=observer)
    dataset = run_data(run, options.data, options.data_root)
    brought.check_shape(dataset.inputs.shape[1:], dataset.name)
    calibrating = brought.calibration(options.calibration, options.data, options.data_root)
    same, other = (
        brought.again(
            seed=one,
            workers=options.workers,
            pool=pool,
            calibration=calibrating,
            input_range=dataset.input_range,
            input_shape=tuple(dataset.inputs.shape[1:]),
        )
        for one in (None, seed)
    )
    further = _Further(pick=seed, findings=brought.findings(), notes=brought.notes)
    recorded = sum(record.draws or 0 for record in records)
    with task(observer, "draw", total=recorded + len(records) * (options.fresh or 0)) as under_way:
        if options.fresh is not None:  # first, because it may refuse its options
            further.findings += draw_fresh(run, records, other, dataset, options.fresh, under_way.advance)
        redrawn = redraw(run, records, same, dataset, under_way.advance)
        further.findings[:0] = redrawn.findings
    inputs = f"{len(records)} input{'' if len(records) == 1 else 's'}"
    further.levels.append(f"level 2 ({redrawn.draws} draws of {inputs} made again)")
    if options.fresh is not None:
        further.levels.append(f"level 3 ({options.fresh} fresh draws for each of {inputs})")
    further.notes += [f"the model is not run as it was: {what}" for what in redrawn.otherwise]
    if redrawn.otherwise:
        further.notes.append(
            f"{redrawn.moved} of {redrawn.draws} votes differ, which rounding on another machine can cause"
        )
    if options.share < 1 or options.fresh is not None:
        further.notes.append(f"what was drawn was chosen with --pick {seed}: give it to draw the same")
    return further
