"""Members of an ensemble in training: one after another, or side by side in processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import typer

from smoothcert.cli.progress import bar
from smoothcert.core.errors import InputError, sentence

if TYPE_CHECKING:
    from smoothcert.training import Epoch
    from smoothcert.training.recipes import Recipe


class News(NamedTuple):
    """How far a member is."""

    seed: int
    done: int
    total: int
    epoch: Epoch | None  # one that has just ended


class End(NamedTuple):
    """How a member ended: trained now or before, or refused."""

    seed: int
    trained: bool
    error: str | None


Tell = Callable[[News], None]


@dataclass(frozen=True)
class Member:
    """One training of the command line."""

    recipe: Recipe
    data: str
    data_root: Path | None
    seed: int
    out: Path
    device: str
    save_every: float

    def train(self, tell: Tell) -> bool:
        """Train it, or what is left of it; false if it was trained before."""
        from smoothcert import datasets
        from smoothcert.workflows.train import train_recipe

        return train_recipe(
            self.recipe,
            datasets.load(self.data, "train", root=self.data_root),
            seed=self.seed,
            out=self.out,
            device=self.device,
            save_every=self.save_every,
            on_epoch=lambda epoch: tell(News(self.seed, epoch.number, epoch.epochs, epoch)),
            on_step=lambda done, total: tell(News(self.seed, done, total, None)),
        )


class Watch:
    """A bar per member on a terminal; into a file, a line per epoch."""

    def __init__(self, members: Sequence[Member], *, shown: bool = True) -> None:
        self.shown, self.single = shown, len(members) == 1
        self.bars = bar("{task.fields[how]}")
        self.tasks = {m.seed: self.bars.add_task(f"seed {m.seed}", total=None, start=False, how="") for m in members}

    def __enter__(self) -> Self:
        if self.shown and self.bars.console.is_terminal:
            self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown and self.bars.console.is_terminal:
            self.bars.stop()

    def tell(self, news: News) -> None:
        """Show it."""
        if not self.shown:
            return
        task, epoch = self.tasks[news.seed], news.epoch
        if epoch is None:
            if not self.bars.tasks[task].started:
                self.bars.start_task(task)
            self.bars.update(task, completed=news.done, total=news.total)
            return
        how = f"epoch {epoch.number}/{epoch.epochs}, loss {epoch.loss:.3f}"
        how += "" if epoch.accuracy is None else f", {100 * epoch.accuracy:.1f}% right under noise"
        if epoch.number == epoch.epochs:
            self.bars.update(task, completed=1, total=1)
        self.bars.update(task, how=how)
        if not self.bars.console.is_terminal:
            typer.echo(how if self.single else f"seed {news.seed}: {how}", err=True)


def side_by_side(members: Sequence[Member], jobs: int) -> list[bool]:
    """Train so many at a time. Each can be killed and resumed on its own; the first error stops the others."""
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    waiting, running, ended = list(members), dict[int, BaseProcess](), dict[int, End]()
    with Watch(members) as watch:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    member = waiting.pop(0)
                    running[member.seed] = context.Process(
                        target=_work, args=(member, messages, os.getpid()), daemon=True
                    )
                    running[member.seed].start()
                time.sleep(0.1)
                gone = [seed for seed, process in running.items() if not process.is_alive()]
                while not messages.empty():
                    message = messages.get()
                    if isinstance(message, End):
                        ended[message.seed] = message
                    else:
                        watch.tell(message)
                for seed in gone:
                    del running[seed]
                    _check(ended.get(seed))
        finally:
            for process in running.values():
                process.terminate()
    return [ended[member.seed].trained for member in members]


def _check(end: End | None) -> None:
    if end is None:
        raise InputError(
            "a training process was killed (too little memory?); run the same command again to go on, perhaps with "
            "--jobs 1"
        )
    if end.error is not None:
        raise InputError(end.error)


def _work(member: Member, messages: Any, parent: int) -> None:
    """In a process of its own: one thread, and an end when the parent is gone, so that the folder is free again."""
    import torch

    # At once and without a word: the parent speaks, and a training may end at any moment.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    last = 0.0

    def tell(news: News) -> None:
        nonlocal last
        if os.getppid() != parent:
            os._exit(1)
        now = time.monotonic()
        if news.epoch is not None or now - last > 0.5:
            last = now
            messages.put(news)

    try:
        messages.put(End(member.seed, member.train(tell), None))
    except (InputError, OSError) as error:
        messages.put(End(member.seed, False, sentence(error)))
