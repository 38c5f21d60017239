"""`smoothcert verify`: whether a run holds, from its votes alone or with the model that made them."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from smoothcert.cli import options as o
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.audit import Audit
    from smoothcert.datasets import Dataset
    from smoothcert.memory import Memory
    from smoothcert.runs import Finding, Run

MOST_ROWS = 100
LEVEL_1 = "level 1 (votes, bounds, boundaries, rounding)"


def verify(
    run: Annotated[Path, typer.Argument(help="The run folder to check.", show_default=False)],
    model: Annotated[
        list[Path], typer.Option(help="What was certified, as then: its votes are drawn again and compared.")
    ] = [],  # noqa: B006
    data: Annotated[
        str | None, typer.Option(help="The data set that was certified. Default: the run's, by its name.")
    ] = None,
    data_root: o.DataRoot = None,
    share: Annotated[float, typer.Option(help="Share of the inputs to draw again, chosen at random.")] = 1.0,
    fresh: Annotated[
        int | None, typer.Option(help="Also make so many fresh draws per input and test whether the votes agree.")
    ] = None,
    pick: Annotated[
        int | None, typer.Option(help="Seed of the share and of fresh draws. Default: random, and printed.")
    ] = None,
    device: o.Device = None,
    workers: o.Workers = None,
    calibration: o.Calibration = None,
    memory: o.MemoryAt = None,
    as_json: o.AsJson = False,
) -> None:
    """Check a run: every claim again from its votes; with --model the votes again. Status 1: not all holds."""
    from smoothcert.audit import audit_run
    from smoothcert.runs import Run

    opened = Run.open(run)
    only_drawing = fresh is not None or share != 1.0 or calibration is not None
    if not model and (only_drawing or (data is not None and memory is None)):
        raise InputError("--share, --fresh, --calibration and --data need the model: give --model CKPT")
    remembered = o.memory(memory, there=True)
    audit = audit_run(opened)
    drawn = Drawn()
    if model:
        options = _Drawing(model, data, data_root, share, fresh, pick, device, workers, calibration)
        drawn = _draw(opened, audit, options)
    if remembered is None and opened.config.memory is not None:
        drawn.notes.append("what was checked is what the draws said, not what the memory made of it: give --memory")
        if audit.of_memory:
            drawn.notes.append(
                f"{len(audit.of_memory)} answers rest on regions of the memory and not on their own draws: without "
                "--memory they do not count as holding"
            )
    if remembered is not None:
        _ask_memory(opened, audit, drawn, remembered, o.run_data(opened, data, data_root))
    _print(audit, drawn, as_json=as_json)
    if audit.findings or drawn.findings or (audit.of_memory and remembered is None):
        raise typer.Exit(1)


def _ask_memory(run: Run, audit: Audit, drawn: Drawn, memory: Memory, dataset: Dataset) -> None:
    """Ask the memory about every claim."""
    from smoothcert.audit.memory import check_against_memory

    doubtful = {finding.index for finding in (*audit.findings, *drawn.findings)}
    drawn.findings += check_against_memory(run, audit.records, memory, dataset, doubtful=doubtful)
    drawn.memory_asked = True
    drawn.levels.append(f"the memory ({len(memory)} regions) answers so")


@dataclass(frozen=True)
class _Drawing:
    """The options that say what is drawn."""

    model: list[Path]
    data: str | None
    data_root: Path | None
    share: float
    fresh: int | None
    pick: int | None
    device: str | None
    workers: int | None
    calibration: str | None


@dataclass
class Drawn:
    """What levels 2 and 3 found, and in words what they did."""

    findings: list[Finding] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pick: int | None = None
    memory_asked: bool = False


def _draw(run: Run, audit: Audit, options: _Drawing) -> Drawn:
    """Levels 2 and 3, under a bar."""
    from smoothcert.audit.rebuild import check_model, rebuild, refuse_other_model
    from smoothcert.audit.redraw import draw_fresh, redraw, sample_records
    from smoothcert.cli.progress import bar
    from smoothcert.models import ensembles

    seed = secrets.randbits(63) if options.pick is None else options.pick
    records = sample_records(audit.records, options.share, seed)
    checkpoint = ensembles.load_model(options.model, o.device(options.device or o.run_device(run)))
    refuse_other_model(run, checkpoint.fingerprint)
    dataset = o.run_data(run, options.data, options.data_root)
    o.check_shape(dataset.inputs.shape[1:], checkpoint.architecture, dataset.name)
    calibrating = o.run_calibration(run, options.calibration, options.data, options.data_root)
    same, other = (
        rebuild(
            run,
            checkpoint.model,
            checkpoint.architecture.num_classes,
            seed=one,
            workers=options.workers,
            calibration=calibrating,
            input_range=dataset.input_range,
            input_shape=tuple(checkpoint.architecture.input_shape),
        )
        for one in (None, seed)
    )
    drawn = Drawn(pick=seed)
    architecture, ensemble = checkpoint.architecture.to_json(), checkpoint.details.get("ensemble")
    drawn.findings += check_model(run, architecture=architecture, ensemble=ensemble)
    files = tuple(path.name for path in options.model)
    if run.config.model.files and files != run.config.model.files:
        drawn.notes.append(f"the run calls its model {', '.join(run.config.model.files)}: it is this one, renamed")
    recorded = sum(record.draws or 0 for record in records)
    with bar() as progress:
        task = progress.add_task("draw", total=recorded + len(records) * (options.fresh or 0))
        if options.fresh is not None:  # first, because it may refuse its options
            drawn.findings += draw_fresh(
                run, records, other, dataset, options.fresh, lambda n: progress.advance(task, n)
            )
        redrawn = redraw(run, records, same, dataset, lambda n: progress.advance(task, n))
        drawn.findings[:0] = redrawn.findings
    drawn.levels.append(f"level 2 ({redrawn.draws} draws of {len(records)} inputs made again)")
    if options.fresh is not None:
        drawn.levels.append(f"level 3 ({options.fresh} fresh draws for each of {len(records)} inputs)")
    drawn.notes += [f"the model is not run as it was: {what}" for what in redrawn.otherwise]
    if redrawn.otherwise:
        drawn.notes.append(f"{redrawn.moved} of {redrawn.draws} votes fell otherwise, as rounding may make them")
    if options.share < 1 or options.fresh is not None:
        drawn.notes.append(f"what was drawn was chosen with --pick {seed}: give it to draw the same")
    return drawn


def _print(audit: Audit, drawn: Drawn, *, as_json: bool) -> None:
    findings = [*audit.findings, *drawn.findings]
    holding = audit.holding(drawn.findings, memory_asked=drawn.memory_asked)
    levels = [LEVEL_1, *drawn.levels]
    compared = "to the last bit" if audit.exact else "to 1e-12, because numpy or scipy are not those of the run"
    if as_json:
        content = {
            "planned": audit.planned,
            "recorded": len(audit.records),
            "holding": holding,
            "levels": levels,
            "exact": audit.exact,
            "pick": drawn.pick,
            "notes": drawn.notes,
            "findings": [finding.to_json() for finding in findings],
        }
        typer.echo(json.dumps(content, indent=2))
        return
    console = o.console()
    if findings:
        table = Table("where", "check", "what does not hold")
        for finding in findings[:MOST_ROWS]:
            table.add_row(finding.where, finding.check, Text(finding.sentence))
        console.print(table)
        if len(findings) > MOST_ROWS:
            console.print(f"and {len(findings) - MOST_ROWS} more; --json lists all", markup=False)
    for note in drawn.notes:
        console.print(f"note: {note}", style="dim", markup=False)
    typer.echo(f"{holding} of {audit.planned} records hold: {', '.join(levels)}; numbers compared {compared}")
