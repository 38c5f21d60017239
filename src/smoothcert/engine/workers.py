"""Threads that run a model side by side, and who owns a runner: the thread that makes it, for all of its life.

Behind a runner there may be a native network whose parts belong to the threads that have used it. Python's join()
returns before a thread has ended for the system: what it used must not be torn down by others at that moment.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.architectures.modules import Model

Submit = Callable[[Callable[[Model, Any], Any], Any], Future[Any]]  # a function of a runner and of what it is to do


@dataclass(frozen=True)
class Workers:
    """How many threads run a model, and how each of them makes its runner.

    Args:
        new_runner: makes a runner; called by the thread that will use it, and drop it.
        count: of threads; one is the caller's own. On a CPU one core each is better than one model on all cores.
        threads: intra-op threads of each; None: as many as the caller has.
    """

    new_runner: Callable[[], Model]
    count: int
    threads: int | None

    @contextmanager
    def working(self) -> Iterator[Submit]:
        """Submit work to runners; they are made when first needed and gone at the end.

        A runner is made, used and dropped by one thread, and no thread ends before all have dropped theirs.
        """
        before = torch.get_num_threads()
        try:
            with self._here() if self.count == 1 else self._side_by_side(self.threads or before) as submit:
                yield submit
        finally:
            torch.set_num_threads(before)

    @contextmanager
    def _here(self) -> Iterator[Submit]:
        own = _Own(self.new_runner)

        def submit(evaluate: Callable[[Model, Any], Any], job: Any) -> Future[Any]:
            future: Future[Any] = Future()
            before = torch.get_num_threads()
            torch.set_num_threads(self.threads or before)
            try:
                future.set_result(evaluate(own, job))
            finally:  # between two jobs the thread is the caller's own
                torch.set_num_threads(before)
            return future

        try:
            yield submit
        finally:
            own.drop()

    @contextmanager
    def _side_by_side(self, threads: int) -> Iterator[Submit]:
        own, stopped, all_dropped = _Own(self.new_runner), threading.Event(), threading.Barrier(self.count)

        def work(evaluate: Callable[[Model, Any], Any], job: Any) -> Any:
            if stopped.is_set():
                raise CancelledError
            try:
                return evaluate(own, job)
            except BaseException as error:
                _forget_locals(error)
                raise

        def retire() -> None:
            own.drop()
            with suppress(threading.BrokenBarrierError):
                all_dropped.wait()

        pool = ThreadPoolExecutor(self.count, initializer=torch.set_num_threads, initargs=(threads,))
        try:
            yield lambda evaluate, job: pool.submit(work, evaluate, job)
        finally:
            stopped.set()
            try:
                wait([pool.submit(retire) for _ in range(self.count)])  # each waits for all: one per thread
            except RuntimeError:  # no more threads, or Python itself is ending: they drop theirs when they end
                all_dropped.abort()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class _Own(threading.local):
    """Runs the runner of the thread that calls. Who holds this holds no runner: `drop` is the end of it."""

    def __init__(self, new_runner: Callable[[], Model]) -> None:
        self._new_runner = new_runner
        self._runner: Model | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self._runner is None:
            self._runner = self._new_runner()
        return self._runner(x)

    def drop(self) -> None:
        self._runner = None


def _forget_locals(error: BaseException | None) -> None:
    """A traceback holds the frames it went through, also those of the runner: it would outlive its thread."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def default_workers(model: Model, device: torch.device) -> int:
    """One per core for a module on the CPU; one for what may not be copied whole: a function, or hooks to elsewhere."""
    if device.type != "cpu" or not isinstance(model, nn.Module):
        return 1
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        return 1
    return max(1, min(torch.get_num_threads(), os.cpu_count() or 1))
