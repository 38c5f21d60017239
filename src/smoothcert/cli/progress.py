"""Progress on the terminal: a bar for people, nothing in the way of programs (it goes to standard error)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from smoothcert.certify import Procedure
    from smoothcert.datasets import Dataset
    from smoothcert.engine import Smoothed
    from smoothcert.runs import Record, Run


def bar(*extra: str) -> Progress:
    """A bar with what it is about, time gone and time left; `extra` are templates of more columns."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *(TextColumn(template) for template in extra),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def certifying(run: Run, smoothed: Smoothed, procedure: Procedure, data: Dataset) -> None:
    """Certify into the run under a bar that counts draws and tells how it goes."""
    from smoothcert.execution import certify_into

    planned, done = len(run.planned), run.records()
    per_input = procedure.most_draws()
    with bar("{task.fields[tally]}") as progress:
        counts = Counter(map(_outcome, done))
        task = progress.add_task("certify", total=per_input * planned, tally=_tally(counts, planned))
        progress.advance(task, per_input * len(done))

        def on_record(record: Record) -> None:
            counts[_outcome(record)] += 1
            # An input that needed fewer draws than it might have is done all the same.
            completed = max(progress.tasks[0].completed, per_input * counts.total())
            progress.update(task, completed=completed, tally=_tally(counts, planned))

        certify_into(run, smoothed, procedure, data, on_draws=lambda n: progress.advance(task, n), on_record=on_record)


def _outcome(record: Record) -> str:
    return "abstained" if record.abstained else "right" if record.correct else "wrong"


def _tally(counts: Counter[str], planned: int) -> str:
    parts = (f"{counts[outcome]} {outcome}" for outcome in ("right", "wrong", "abstained"))
    return f"{counts.total()}/{planned} inputs: {', '.join(parts)}"
