"""Whoever wants to know how a long task goes: an `Observer`. A terminal, a log file and a service each have their own.

A task has a name that is unique while it runs, counts up to a total (draws, steps, inputs), and may have a note: how
it goes, in a few words.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOG = "progress.log"
"""The file of a run or training that progress is appended to."""

FIRST, LONGEST = 2.0, 60.0
ENOUGH = 200  # one part in so many must be done before the time left is told
"""Seconds until the second line of progress where no terminal shows a bar, and the most between later ones."""


class Observer:
    """Hears how a task goes. This one is silent, but for warnings, which become Python warnings; override at will."""

    def started(self, task: str, *, total: int | None, done: int) -> None:
        """A task begins, or goes on where `done` of it was done before. `total` is None until it is known."""

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        """So much is done now. Called often: return at once."""

    def finished(self, task: str, *, note: str) -> None:
        """All of it is done. A task that fails or is stopped does not finish."""

    def message(self, text: str) -> None:
        """A result in words."""

    def warned(self, text: str) -> None:
        """What the user should know about the result, in one sentence."""
        warnings.warn(text, stacklevel=2)


SILENT = Observer()


@dataclass
class Task:
    """One task under way, and its observer."""

    observer: Observer
    name: str
    total: int | None
    done: int = 0
    note: str = ""

    def advance(self, by: int = 1) -> None:
        """So much more is done."""
        self.reach(self.done + by)

    def reach(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """So much is done in all; `total` and `note` stay as they are unless given."""
        self.done = done
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note
        self.observer.advanced(self.name, done=self.done, total=self.total, note=self.note)


@contextmanager
def task(observer: Observer, name: str, *, total: int | None = None, done: int = 0, note: str = "") -> Iterator[Task]:
    """Tell the observer of a task from its start to its end."""
    under_way = Task(observer, name, total, done, note)
    observer.started(name, total=total, done=done)
    yield under_way
    observer.finished(name, note=under_way.note)


class Observers(Observer):
    """Several, as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def started(self, task: str, *, total: int | None, done: int) -> None:
        """Told to all."""
        for observer in self._observers:
            observer.started(task, total=total, done=done)

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        """Told to all."""
        for observer in self._observers:
            observer.advanced(task, done=done, total=total, note=note)

    def finished(self, task: str, *, note: str) -> None:
        """Told to all."""
        for observer in self._observers:
            observer.finished(task, note=note)

    def message(self, text: str) -> None:
        """Told to all."""
        for observer in self._observers:
            observer.message(text)

    def warned(self, text: str) -> None:
        """Told to all."""
        for observer in self._observers:
            observer.warned(text)


@dataclass
class _Pace:
    began: float
    said: float
    wait: float  # seconds until the next line
    counted: tuple[float, int] | None  # since when, and how much was done then: what the time left is guessed from


class PlainLines(Observer):
    """Lines of text at a calm pace: one at once, others after twice as long each time up to a minute, one at the end.

    Args:
        write: takes one line, without its end.
        clock: seconds that never go back.
    """

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._tasks: dict[str, _Pace] = {}

    def started(self, task: str, *, total: int | None, done: int) -> None:
        """A line at once: whoever looks into the log sees that it goes."""
        now = self._clock()
        self._tasks[task] = _Pace(now, now, FIRST, None if total is None else (now, done))
        share = f" at {100 * done // total}%" if total and done else ""
        self._write(f"{task}: started{share}")

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        """A line, if it is time for one."""
        now, pace = self._clock(), self._tasks[task]
        if pace.counted is None and total is not None:
            pace.counted = (now, done)
        if now - pace.said < pace.wait:
            return
        pace.said, pace.wait = now, min(2 * pace.wait, LONGEST)
        words = [note] if note else []
        words.append(f"{_time(now - pace.began)} gone")
        # Of the first steps nothing follows: workers that start take seconds, which would come to days.
        if total and pace.counted is not None and (done - pace.counted[1]) * ENOUGH >= total - pace.counted[1] > 0:
            since, before = pace.counted
            words.append(f"about {_time((now - since) * max(0, total - done) / (done - before))} left")
        share = f"{100 * min(done, total) // total}%" if total else f"{done}"
        self._write(f"{task}: {', '.join([share, *words])}")

    def finished(self, task: str, *, note: str) -> None:
        """The last line."""
        gone = self._clock() - self._tasks.pop(task).began
        self._write(f"{task}: done in {_time(gone)}{f', {note}' if note else ''}")


class LogFile(PlainLines):
    """The same into a file that is appended to, with the date; a disk that refuses the log does not stop the work."""

    def __init__(self, path: Path) -> None:
        def append(line: str) -> None:
            with contextlib.suppress(OSError), path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")

        super().__init__(append)

    def message(self, text: str) -> None:
        """A line."""
        self._write(text)

    def warned(self, text: str) -> None:
        """A line."""
        self._write(f"warning: {text}")


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
