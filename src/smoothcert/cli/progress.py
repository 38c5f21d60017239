"""Progress on the terminal: a bar for people, nothing in the way of programs (it goes to standard error)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

if TYPE_CHECKING:
    from smoothcert.datasets import Dataset
    from smoothcert.engine import MemberCalls, Smoothed
    from smoothcert.procedures import Procedure
    from smoothcert.runs import Record, Run


def bar(*extra: str) -> Progress:
    """A bar with what it is about, time gone and time left; `extra` are templates of more columns."""
    # Words give way before the bar and the times do; `extra` comes last: a narrow terminal cuts the least important.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        TextColumn("{task.description}", table_column=Column(min_width=7)),
        BarColumn(bar_width=12, table_column=Column(min_width=12)),
        TimeElapsedColumn(table_column=Column(min_width=7)),
        TextColumn("left", table_column=Column(min_width=4)),
        TimeRemainingColumn(table_column=Column(min_width=7)),
        *(TextColumn(template, table_column=rest) for template in extra),
        console=Console(stderr=True),
        expand=True,
        speed_estimate_period=3600.0,  # steps may take minutes; at most 1000 of them are looked back on
    )


def certifying(
    run: Run, smoothed: Smoothed, procedure: Procedure, data: Dataset, member_calls: MemberCalls | None = None
) -> None:
    """Certify into the run under a bar that counts draws and tells how it goes."""
    from smoothcert.workflows.certify import certify_into

    planned, done = len(run.planned), run.records()
    per_input = procedure.most_draws()
    tally = Tally(planned, procedure.fixed_draws())
    for record in done:
        tally.add(record)
    with bar("{task.fields[tally]}") as progress:
        task = progress.add_task("certify", total=per_input * planned, tally=str(tally))
        progress.advance(task, per_input * len(done))

        def on_record(record: Record) -> None:
            tally.add(record)
            # An input that needed fewer draws than it might have is done all the same.
            completed = max(progress.tasks[0].completed, per_input * tally.inputs)
            progress.update(task, completed=completed, tally=str(tally))

        certify_into(
            run,
            smoothed,
            procedure,
            data,
            on_draws=lambda n: progress.advance(task, n),
            on_record=on_record,
            member_calls=member_calls,
        )


@dataclass
class Tally:
    """How it goes, in a few words."""

    planned: int
    fixed_draws: int
    inputs: int = 0
    draws: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        """One more input is done."""
        self.inputs += 1
        self.draws += record.draws or 0
        self.outcomes["given up" if record.abstained else "certified" if record.correct else "wrong class"] += 1

    def __str__(self) -> str:
        certified, wrong = self.outcomes["certified"] + self.outcomes["wrong class"], self.outcomes["wrong class"]
        text = f"{certified} certified ({wrong} wrong), {self.outcomes['given up']} given up, "
        text += f"{self.planned - self.inputs} undecided"
        saved = self.inputs * self.fixed_draws - self.draws
        return f"{text}, {saved:,} draws saved" if saved > 0 else text
