"""An observer for people: bars on a terminal, elsewhere plain lines at a calm pace; both on standard error.

Results in words go to standard output, warnings beside it.
"""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from smoothcert.core.text import visible
from smoothcert.workflows.observer import Observer, PlainLines


class Lines(PlainLines):
    """Plain lines."""

    def __init__(self) -> None:
        super().__init__(_beside)

    def message(self, text: str) -> None:
        """Printed."""
        print(visible(text))

    def warned(self, text: str) -> None:
        """Printed, beside the output."""
        _beside(f"warning: {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Bars(Observer):
    """A bar per task, gone when the last one is finished or stopped."""

    def __init__(self) -> None:
        self._bars = bars()
        self._tasks: dict[str, TaskID] = {}

    def started(self, task: str, *, total: int | None, done: int) -> None:
        """A new bar; its clock starts when it is known how long it is."""
        if not self._tasks:
            self._bars.start()
        known = total is not None
        self._tasks[task] = self._bars.add_task(task, total=total, start=known, completed=done, note="")

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        """Drawn a few times per second."""
        bar = self._tasks[task]
        if total is not None and not self._bars.tasks[bar].started:
            self._bars.start_task(bar)
        self._bars.update(bar, completed=done, total=total, note=note)

    def finished(self, task: str, *, note: str) -> None:
        """A full bar."""
        self._bars.update(self._tasks.pop(task), completed=1, total=1, note=note)
        if not self._tasks:
            self._bars.stop()

    def message(self, text: str) -> None:
        """Printed."""
        print(visible(text))

    def warned(self, text: str) -> None:
        """Printed, beside the output."""
        _beside(f"warning: {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tasks:  # stopped or failed
            self._bars.stop()


def bars() -> Progress:
    """A bar with what it is about, time gone, time left and a note."""
    # Words give way before the bar and the times do; the note comes last: a narrow terminal cuts the least important.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        TextColumn("{task.description}", table_column=Column(min_width=7)),
        BarColumn(bar_width=12, table_column=Column(min_width=12)),
        TimeElapsedColumn(table_column=Column(min_width=7)),
        TextColumn("left", table_column=Column(min_width=4)),
        TimeRemainingColumn(table_column=Column(min_width=7)),
        TextColumn("{task.fields[note]}", table_column=rest, markup=False),
        console=Console(stderr=True),
        expand=True,
        speed_estimate_period=3600.0,  # steps may take minutes; at most 1000 of them are looked back on
    )


def terminal_observer() -> Bars | Lines:
    """What suits standard error. It is a context: however it ends, no half drawn bar is left behind."""
    return Bars() if Console(stderr=True).is_terminal else Lines()


def _beside(text: str) -> None:
    print(visible(text), file=sys.stderr, flush=True)
