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
from typing import Any

import torch

from smoothcert.core.errors import InputError, sentence
from smoothcert.core.plugins import Plugin, load_again, loaded_plugins
from smoothcert.engine.pools import Pool, Processes, Ray
from smoothcert.present.figures import training_curves
from smoothcert.training import Folder, Group, launched
from smoothcert.training.recipes import Recipe, find
from smoothcert.workflows.choices import PoolChoice, resolve_pool
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.seeds_on_ray import side_by_side_on_ray
from smoothcert.workflows.sources import find_device
from smoothcert.workflows.training_events import End, Sender, Training, check_end


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
    pool: Pool | PoolChoice | None = None,
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
        pool: `Processes()`, of this machine, or a `Ray` cluster, whose machines share the disk that `out` and the data
            are on; there `jobs` is by default as many as there is room for. Default: processes.
        observer: hears how each training goes. It also goes into the file progress.log of each.
    """
    chosen, out = find(recipe) if isinstance(recipe, str) else recipe, Path(out)
    cluster = _cluster(resolve_pool(pool))
    # A machine of the cluster may have the GPU that this one has not.
    found = "cuda" if cluster is not None and cluster.gpus_per_worker and device is None else find_device(device)
    with launched(found) as where:
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
        if cluster is not None:
            new = side_by_side_on_ray(trainings, jobs, cluster, observer)
        elif parallel > 1:
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


def _cluster(pool: Pool | None) -> Ray | None:
    """The cluster to train on; None: this machine."""
    if not isinstance(pool, Ray | Processes | None):
        raise InputError("--pool of trainings must be processes or ray: each member has a process of its own")
    if isinstance(pool, Ray) and "RANK" in os.environ:
        raise InputError("--pool ray does not go with torchrun, whose processes train one model together; leave it out")
    if isinstance(pool, Processes) and (pool.workers, pool.gpus_per_worker) != (None, None):
        raise InputError("processes of trainings are counted by --jobs, and a GPU is not shared; leave the rest out")
    return pool if isinstance(pool, Ray) else None


def _parallel(jobs: int | None, trainings: int, device: str) -> int:
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    alone = "RANK" in os.environ or device != "cpu"  # a group trains one model, and a GPU is shared badly
    if alone and jobs is None:
        return 1
    if "RANK" in os.environ and jobs != 1:
        raise InputError("--jobs does not go with torchrun, whose processes train one model together; leave it out")
    return min(trainings, jobs or len(os.sched_getaffinity(0)))


def side_by_side(trainings: Sequence[Training], jobs: int, observer: Observer = SILENT) -> list[bool]:
    """Train so many at a time. Each can be killed and resumed on its own; the first error stops the others."""
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    waiting, running, ended = list(trainings), dict[str, BaseProcess](), dict[str, End]()
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
                if isinstance(message, End):
                    ended[message.task] = message
                else:
                    getattr(observer, message.method)(message.task, **message.about)
            for name in gone:
                del running[name]
                check_end(ended.get(name))
    finally:
        for process in running.values():
            process.terminate()
    return [ended[training.task].new for training in trainings]


def _work(training: Training, messages: Any, parent: int, plugins: Sequence[Plugin]) -> None:
    """In a process of its own, with one thread."""
    # At once and without a word: the parent speaks, and a training may end at any moment.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    try:
        load_again(plugins)
        messages.put(End(training.task, training.run(Sender(messages, parent)), None))
    except (InputError, OSError) as error:
        messages.put(End(training.task, False, sentence(error)))
