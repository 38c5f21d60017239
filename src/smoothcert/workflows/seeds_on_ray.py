"""Trainings side by side on the machines of a Ray cluster, which share the disk that they write to."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from smoothcert.core.errors import InputError, sentence
from smoothcert.core.plugins import Plugin, load_contents, plugin_contents
from smoothcert.datasets import data_root
from smoothcert.engine.pools.ray import Ray, connect
from smoothcert.engine.pools.shipping import software
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.training_events import End, Sender, Training, check_end

LOOK = 0.2  # seconds between looks at what was heard
RETRIES = 100  # of a training whose machine is lost: it goes on from its last state


def side_by_side_on_ray(
    trainings: Sequence[Training], jobs: int | None, pool: Ray, observer: Observer = SILENT
) -> list[bool]:
    """Train so many at a time, or as many as the cluster has room for; true: it was not trained before.

    A training whose machine is lost goes on elsewhere from the last state on the shared disk. The first error stops the
    others, and so does the end of this process; the same call again goes on.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    ray = connect(pool.address)
    gpus = pool.gpus_per_worker
    if gpus is None:
        gpus = float(torch.device(trainings[0].device).type == "cuda")
    train = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES, retry_exceptions=False)(_train_there)
    messages, contents = _queue_here(ray), plugin_contents()
    waiting, running, ended = [_absolute(one) for one in trainings], dict[Any, str](), dict[str, End]()
    try:
        while waiting or running:
            while waiting and (jobs is None or len(running) < jobs):
                training = waiting.pop(0)
                reference = train.remote(training, _proof(training.out.parent), messages, software(), contents)
                running[reference] = training.task
            done, _ = ray.wait(list(running), timeout=LOOK)
            for event in messages.get_nowait_batch(messages.size()):
                getattr(observer, event.method)(event.task, **event.about)
            for reference in done:
                name = running.pop(reference)
                ended[name] = _end_of(ray, reference, name)
                check_end(ended[name])
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        messages.shutdown(force=True)
        for training in trainings:
            (training.out.absolute().parent / _NAME).unlink(missing_ok=True)
    return [ended[training.task].new for training in trainings]


def _absolute(training: Training) -> Training:
    """The same wherever a process starts."""
    data = training.data
    if Path(data).exists():
        data = Path(data).absolute()
    return replace(
        training,
        out=training.out.absolute(),
        data=data,
        data_root=data_root(training.data_root).absolute(),
        init=None if training.init is None else training.init.absolute(),
    )


_NAME = f".shared-{secrets.token_hex(8)}"


def _proof(folder: Path) -> Path:
    """A file by which a machine sees that the folder is the one that is meant."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _NAME).touch()
    return folder / _NAME


def _queue_here(ray: Any) -> Any:
    """A queue on this machine: one elsewhere would be lost with that machine."""
    from ray.util.queue import Queue  # noqa: PLC0415
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})


def _end_of(ray: Any, reference: Any, name: str) -> End:
    try:
        end: End = ray.get(reference)
    except ray.exceptions.RayError as error:
        said = str(error).strip().splitlines()[-1]
        return End(name, False, f"{name} could not be trained on the Ray cluster ({type(error).__name__}: {said})")
    return end


def _train_there(
    training: Training,
    proof: Path,
    messages: Any,
    wanted: dict[str, str],
    contents: Sequence[tuple[Plugin, bytes]],
) -> End:
    """On a machine of the cluster, in a process of its own, with one thread."""
    place, here = socket.gethostname(), software()
    differing = [name for name in wanted if wanted[name] != here.get(name)]
    if differing:
        name = differing[0]
        said = f"{place} has another {name} ({here.get(name)}) than this machine ({wanted[name]}); install the same"
        return End(training.task, False, said)
    if not proof.exists():
        said = f"--out {training.out} is not on a disk that {place} shares with this machine; give a folder that is"
        return End(training.task, False, said)
    torch.set_num_threads(1)
    try:
        load_contents(contents)
        return End(training.task, training.run(Sender(messages, os.getppid())), None)
    except (InputError, OSError) as error:
        return End(training.task, False, sentence(error))
