"""Threads that run models side by side, for the life of the process, and who owns a runner: the thread that made it.

Behind a runner there may be a native network whose parts belong to the threads that have used it. So a runner is made,
used and dropped by one thread, and no thread ends before all have dropped theirs: a network that was dropped by others
while threads that had used it were ending crashed about one in forty runs of a busy machine.

The threads are shared by all that are run in this process: as many models as there may be, there are no more threads
than one set per number of workers. Runners are kept between calls, as long as their model is there.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import traceback
import weakref
from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.engine.pools.base import Work

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Result = TypeVar("Result")

KEPT = 8
"""Runners that a thread keeps at most, those that were used last: each holds a copy of its model."""


@dataclass(frozen=True, eq=False)
class _Order:
    """What is to be done, of which model."""

    key: int
    compiled: Compiled
    work: Work[Any]
    future: Future[Any]


class WorkerThreads:
    """`count` threads that take work from one queue, with `intra_op` threads of torch each."""

    def __init__(self, count: int, intra_op: int) -> None:
        self.count, self.intra_op = count, intra_op
        # Reentrant: what drops a model may run in a thread that holds it, whenever memory is collected.
        self._condition = threading.Condition(threading.RLock())
        self._queue: deque[_Order] = deque()
        self._closing = False
        self._numbers = itertools.count()
        self._keys: weakref.WeakKeyDictionary[Compiled, int] = weakref.WeakKeyDictionary()
        self.all_dropped = threading.Barrier(count)
        before = torch.get_num_threads()
        self.threads = [_Worker(self, number) for number in range(count)]
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.started.wait()
        torch.set_num_threads(before)  # else threads that others start would get what ours have set last

    def submit(self, compiled: Compiled, work: Work[Result]) -> Future[Result]:
        """Do the work with the compiled model, in one of the threads."""
        order = _Order(self._key(compiled), compiled, work, Future())
        own = threading.current_thread()
        if isinstance(own, _Worker):  # a model that asks another one: who waits here would wait for itself
            own.do(order)
            return order.future
        with self._condition:
            if self._closing:
                raise RuntimeError("work was submitted while Python is ending")
            self._queue.append(order)
            self._condition.notify()
        return order.future

    def drop(self, key: int) -> None:
        """Let every thread drop its runner of that model."""
        with self._condition:
            for thread in self.threads:
                thread.to_drop.append(key)
            self._condition.notify_all()

    def next_order(self, thread: _Worker) -> _Order | bool:
        """The next order, or True: only look at what is to be dropped; False: end."""
        with self._condition:
            while not (thread.to_drop or self._queue or self._closing):
                self._condition.wait()
            if thread.to_drop:
                return True
            return False if self._closing else self._queue.popleft()

    def close(self) -> None:
        """Give up what was not begun, drop all runners, end all threads, in this order."""
        with self._condition:
            self._closing = True
            given_up, self._queue = self._queue, deque()
            self._condition.notify_all()
        for order in given_up:
            order.future.cancel()
        for thread in self.threads:
            thread.join()

    def after_fork(self) -> None:
        """In a child process there are no threads but one."""
        self._condition, self.threads = threading.Condition(threading.RLock()), []

    def _key(self, compiled: Compiled) -> int:
        with self._condition:
            if compiled not in self._keys:
                self._keys[compiled] = next(self._numbers)
                weakref.finalize(compiled, self.drop, self._keys[compiled]).atexit = False
            return self._keys[compiled]


class _Worker(threading.Thread):
    """A thread and the runners that it has made."""

    def __init__(self, crew: WorkerThreads, number: int) -> None:
        # A daemon, because Python waits for others before it says that it is ending; `close_all` waits for these.
        super().__init__(name=f"smoothcert-worker-{number}", daemon=True)
        self._crew, self._runners = crew, OrderedDict[int, Model]()
        self.to_drop: deque[int] = deque()
        self.started = threading.Event()

    def run(self) -> None:
        """Do what is in the queue until the end."""
        self._set_threads()
        self.started.set()
        while self._turn():
            pass
        self._runners.clear()
        self._crew.all_dropped.wait()

    def do(self, order: _Order) -> None:
        """Do it here, with the runner of this thread."""
        if not order.future.set_running_or_notify_cancel():
            return
        try:
            order.future.set_result(self._evaluate(order))
        except BaseException as error:
            _leave_frames(error)
            order.future.set_exception(error)

    def _turn(self) -> bool:
        order = self._crew.next_order(self)
        while self.to_drop:
            self._runners.pop(self.to_drop.popleft(), None)
        if isinstance(order, _Order):
            self.do(order)
            return True
        return order

    def _evaluate(self, order: _Order) -> Any:
        self._set_threads()
        if order.key not in self._runners:
            self._runners[order.key] = order.compiled.executable.new_runner()
        self._runners.move_to_end(order.key)
        while len(self._runners) > KEPT:
            self._runners.popitem(last=False)
        return order.work.run(order.compiled, self._runners[order.key])

    def _set_threads(self) -> None:
        if torch.get_num_threads() != self._crew.intra_op:
            torch.set_num_threads(self._crew.intra_op)
            torch.get_num_threads()  # only after it was read does torch keep what a thread has set


def _leave_frames(error: BaseException) -> None:
    """Keep where an error came from as a note, without the frames: they hold a runner that would outlive its thread.

    Clearing the frames is not enough: each holds its function, and so what that closes over.
    """
    if not isinstance(error, InputError):
        error.add_note("In a worker:\n" + "".join(traceback.format_tb(error.__traceback__)))
    left: BaseException | None = error
    while left is not None:
        left.__traceback__ = None
        left = left.__cause__ or left.__context__


_crews: dict[tuple[int, int], WorkerThreads] = {}
_lock = threading.Lock()


def worker_threads(count: int, intra_op: int) -> WorkerThreads:
    """The threads of this process for so many workers; made when first asked for."""
    with _lock:
        if (count, intra_op) not in _crews:
            _crews[count, intra_op] = WorkerThreads(count, intra_op)
        return _crews[count, intra_op]


def close_all() -> None:
    """Drop all runners and end all threads."""
    with _lock:
        crews = list(_crews.values())
        _crews.clear()
    for crew in crews:
        crew.close()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 (it may have been held when the process was forked)
    _lock = threading.Lock()
    for crew in _crews.values():
        crew.after_fork()
    _crews.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_after_fork)
