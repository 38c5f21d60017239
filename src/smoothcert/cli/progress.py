"""Progress on the terminal: a bar for people, nothing in the way of programs (it goes to standard error)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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

    done = [record for record in run.records() if record.index in set(run.planned)]
    per_input = procedure.most_draws()
    counts = {"inputs": len(done), "right": sum(r.correct for r in done), "abstained": sum(r.abstained for r in done)}
    columns = ("{task.fields[inputs]}/" + str(len(run.planned)), "right {task.fields[right]}, abstained {task.fields[abstained]}")
    with bar(*columns) as progress:
        total = per_input * len(run.planned)
        task = progress.add_task("certify", total=total, completed=per_input * len(done), **counts)

        def on_record(record: Record) -> None:
            counts["inputs"] += 1
            counts["right"] += record.correct
            counts["abstained"] += record.abstained
            progress.update(task, completed=max(progress.tasks[0].completed, per_input * counts["inputs"]), **counts)

        certify_into(
            run, smoothed, procedure, data, on_draws=lambda n: progress.advance(task, n), on_record=on_record
        )
