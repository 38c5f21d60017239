"""Train by a recipe with one seed or several: one after another, or side by side in processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from smoothcert.core.errors import InputError, sentence
from smoothcert.core.plugins import Plugin, load_again, loaded_plugins
from smoothcert.present.figures import training_curves
from smoothcert.training import Folder, Group, launched
from smoothcert.training.recipes import Recipe, find
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.sources import find_device, open_data
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


@dataclass(frozen=True)
class Trained:
    """A training that is done."""

    training: Training
    new: bool  # false: it was done before

    @property
    def model(self) -> Path:
        """The checkpoint."""
        return Folder(self.training.out).model


def train_seeds(
    recipe: Recipe | str,
    *,
    out: str | Path,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    data: str | Path | None = None,
    data_root: Path | None = None,
    device: str | None = None,
    jobs: int | None = None,
    save_every: float = 120.0,
    init: Path | None = None,
    keep_every: int | None = None,
    observer: Observer = SILENT,
) -> list[Trained]:
    """Train by a recipe into the folder `out`, or with several `seeds` into its folders seed0, seed1, ...

    The same call again goes on where an earlier attempt stopped. Under torchrun all processes train one model together,
    and all but the first get an empty list.

    Args:
        recipe: a recipe, or its name.
        out: folder of the training, or of the trainings.
        seed: of one training, in `out` itself.
        seeds: of several trainings, instead of `seed`.
        data: a data set, .npz file or image folder. Default: the recipe's.
        data_root: where the files of named data sets lie.
        device: default: the best there is.
        jobs: trainings side by side. Default: as many as cores; 1 on a GPU or under torchrun.
        save_every, init, keep_every: as of `train_recipe`.
        observer: hears how each training goes. It also goes into the file progress.log of each.
    """
    chosen, out = find(recipe) if isinstance(recipe, str) else recipe, Path(out)
    with launched(find_device(device)) as where:
        trainings = [
            Training(
                recipe=chosen,
                data=data or chosen.data,
                seed=number,
                out=out if seeds is None else out / f"seed{number}",
                device=where,
                save_every=save_every,
                data_root=data_root,
                init=init,
                keep_every=keep_every,
            )
            for number in ([seed] if seeds is None else seeds)
        ]
        parallel = _parallel(jobs, len(trainings), where)
        first = Group.current().rank == 0
        if parallel > 1:
            new = side_by_side(trainings, parallel, observer)
        else:
            new = [training.run(observer if first else SILENT) for training in trainings]
        if not first:
            return []
    trained = [Trained(training, one) for training, one in zip(trainings, new, strict=True)]
    _draw_curves(trained, out)
    return trained


def _draw_curves(trained: Sequence[Trained], out: Path) -> None:
    for one in trained:
        folder = Folder(one.training.out)
        if one.new or not folder.curves.exists():
            training_curves([folder.path / "log.jsonl"], folder.curves)
    if len(trained) > 1 and (any(one.new for one in trained) or not (out / "curves.png").exists()):
        training_curves([one.training.out / "log.jsonl" for one in trained], out / "curves.png")


def _parallel(jobs: int | None, trainings: int, device: str) -> int:
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    alone = "RANK" in os.environ or device != "cpu"  # a group trains one model, and a GPU is shared badly
    if alone and jobs is None:
        return 1
    if "RANK" in os.environ and jobs != 1:
        raise InputError("--jobs does not go with torchrun, whose processes train one model together; leave it out")
    return min(trainings, jobs or len(os.sched_getaffinity(0)))


class _Event(NamedTuple):
    """What an observer in a process heard, for the one of its parent."""

    method: str
    task: str
    about: dict[str, Any]


class _End(NamedTuple):
    """How a process ended: trained now or before, or refused."""

    task: str
    new: bool
    error: str | None


class _Sender(Observer):
    """In a process: what is heard goes to the parent, not too often; and the end, when the parent is gone."""

    def __init__(self, messages: Any, parent: int) -> None:
        self.messages, self.parent, self.last, self.note = messages, parent, 0.0, ""

    def started(self, task: str, *, total: int | None, done: int) -> None:
        """Sent."""
        self.messages.put(_Event("started", task, {"total": total, "done": done}))

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        """Sent if it is time, or news."""
        if os.getppid() != self.parent:
            os._exit(1)  # so that the folder is free again
        now = time.monotonic()
        if note != self.note or now - self.last > THROTTLE:
            self.last, self.note = now, note
            self.messages.put(_Event("advanced", task, {"done": done, "total": total, "note": note}))

    def finished(self, task: str, *, note: str) -> None:
        """Sent."""
        self.messages.put(_Event("finished", task, {"note": note}))


def side_by_side(trainings: Sequence[Training], jobs: int, observer: Observer = SILENT) -> list[bool]:
    """Train so many at a time. Each can be killed and resumed on its own; the first error stops the others."""
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    waiting, running, ended = list(trainings), dict[str, BaseProcess](), dict[str, _End]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                training = waiting.pop(0)
                arguments = (training, messages, os.getpid(), loaded_plugins())
                running[training.task] = context.Process(target=_work, args=arguments, daemon=True)
                running[training.task].start()
            time.sleep(0.1)
            gone = [name for name, process in running.items() if not process.is_alive()]
            while not messages.empty():
                message = messages.get()
                if isinstance(message, _End):
                    ended[message.task] = message
                else:
                    getattr(observer, message.method)(message.task, **message.about)
            for name in gone:
                del running[name]
                _check_end(ended.get(name))
    finally:
        for process in running.values():
            process.terminate()
    return [ended[training.task].new for training in trainings]


def _check_end(end: _End | None) -> None:
    if end is None:
        raise InputError(
            "a training process was killed (too little memory?); run the same command again to go on, perhaps with "
            "--jobs 1"
        )
    if end.error is not None:
        raise InputError(end.error)


def _work(training: Training, messages: Any, parent: int, plugins: Sequence[Plugin]) -> None:
    """In a process of its own, with one thread."""
    # At once and without a word: the parent speaks, and a training may end at any moment.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    try:
        load_again(plugins)
        messages.put(_End(training.task, training.run(_Sender(messages, parent)), None))
    except (InputError, OSError) as error:
        messages.put(_End(training.task, False, sentence(error)))
