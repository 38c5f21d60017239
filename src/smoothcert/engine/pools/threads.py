"""`Threads`: the pool of this process."""

from __future__ import annotations

import os
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.engine.pools.base import Pool, Session, Work
from smoothcert.engine.pools.worker_threads import WorkerThreads, worker_threads

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Result = TypeVar("Result")


@dataclass(frozen=True)
class Threads(Pool):
    """Threads of this process, with a copy of the model each; on a CPU, one core each.

    That is faster than one model spread over all cores. Without a number: all cores for a module on the CPU, else one.
    With more than one, a function must allow to be called from several threads; with one, it is called by the caller.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is None:
            return
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 1:
            raise InputError(f"workers must be at least 1, got {self.workers!r}")

    def open(self, compiled: Compiled) -> Session:
        """Threads that are there for all models of this process; their runners of this one are kept with it."""
        if compiled.workers == 1 and not isinstance(compiled.model, nn.Module):
            return InCaller(compiled)
        return _ThreadSession(compiled, worker_threads(compiled.workers, compiled.threads))


class _ThreadSession(Session):
    def __init__(self, compiled: Compiled, threads: WorkerThreads) -> None:
        self._compiled, self._threads = compiled, threads
        self._under_way: set[Future[Any]] = set()

    @property
    def workers(self) -> int:
        return self._threads.count

    @property
    def in_flight(self) -> int:
        return 2 * self._threads.count  # a next one for each: the caller may be late, as it must wait for Python's lock

    def submit(self, work: Work[Result]) -> Future[Result]:
        future = self._threads.submit(self._compiled, work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def close(self) -> None:
        rest = tuple(self._under_way)
        for future in rest:
            future.cancel()
        wait(rest)


class InCaller(Session):
    """One worker that is the caller's own thread: a function may need to be called where it was made."""

    workers = in_flight = 1

    def __init__(self, compiled: Compiled) -> None:
        self._compiled, self._runner = compiled, compiled.executable.new_runner()

    def submit(self, work: Work[Result]) -> Future[Result]:
        """Done when it returns; what the model raises is raised here."""
        future: Future[Result] = Future()
        before = torch.get_num_threads()
        torch.set_num_threads(self._compiled.threads)
        try:
            future.set_result(work.run(self._compiled, self._runner))
        finally:  # between two works the thread is the caller's own
            torch.set_num_threads(before)
        return future

    def close(self) -> None:
        """Nothing is under way."""


def default_workers(model: Model, device: torch.device) -> int:
    """One per core for a module on the CPU; one for what may not be copied whole: a function, or hooks to elsewhere."""
    if device.type != "cpu" or not isinstance(model, nn.Module):
        return 1
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        return 1
    return max(1, min(torch.get_num_threads(), os.cpu_count() or 1))
