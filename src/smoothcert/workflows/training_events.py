"""One training, and what is heard of it from the process or the machine where it runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from smoothcert.core.errors import InputError
from smoothcert.training.recipes import Recipe
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.sources import open_data
from smoothcert.workflows.train import train_recipe

THROTTLE = 0.5  # seconds between messages of a process


@dataclass(frozen=True)
class Training:
    """One training: a recipe, data and a seed become a model in a folder."""

    recipe: Recipe
    data: str | Path
    seed: int
    out: Path
    device: str = "cpu"
    save_every: float = 120.0
    data_root: Path | None = None
    init: Path | None = None
    keep_every: int | None = None

    @property
    def task(self) -> str:
        """What an observer hears it called."""
        return f"seed {self.seed}"

    def run(self, observer: Observer = SILENT) -> bool:
        """Train it, or what is left of it; false if it was trained before."""
        return train_recipe(
            self.recipe,
            open_data(self.data, "train", root=self.data_root, called="--data"),
            seed=self.seed,
            out=self.out,
            device=self.device,
            save_every=self.save_every,
            init=self.init,
            keep_every=self.keep_every,
            observer=observer,
        )


class Event(NamedTuple):
    """What an observer in a process heard, for the one of its parent."""

    method: str
    task: str
    about: dict[str, Any]


class End(NamedTuple):
    """How a process ended: trained now or before, or refused."""

    task: str
    new: bool
    error: str | None


class Sender(Observer):
    """In a process: what is heard goes to the parent, not too often; and the end, when the parent is gone."""

    def __init__(self, messages: Any, parent: int) -> None:
        self.messages, self.parent, self.last, self.note = messages, parent, 0.0, ""

    def started(self, task: str, *, total: int | None, done: int) -> None:
        """Sent."""
        self.messages.put(Event("started", task, {"total": total, "done": done}))

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        """Sent if it is time, or news."""
        if os.getppid() != self.parent:
            os._exit(1)  # so that the folder is free again
        now = time.monotonic()
        if note != self.note or now - self.last > THROTTLE:
            self.last, self.note = now, note
            self.messages.put(Event("advanced", task, {"done": done, "total": total, "note": note}))

    def finished(self, task: str, *, note: str) -> None:
        """Sent."""
        self.messages.put(Event("finished", task, {"note": note}))


def check_end(end: End | None) -> None:
    """Raise what a training was refused, or that its process was killed."""
    if end is None:
        raise InputError(
            "a training process was killed (too little memory?); run the same command again to go on, perhaps with "
            "--jobs 1"
        )
    if end.error is not None:
        raise InputError(end.error)
