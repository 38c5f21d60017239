"""`Processes`: the pool of this machine's processes, one per core or one per GPU."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch

from smoothcert.core.errors import InputError
from smoothcert.engine.pools.base import Pool, Session
from smoothcert.engine.pools.crew_session import open_session
from smoothcert.engine.pools.holder import ModelHolder
from smoothcert.engine.pools.recruiting import Answered, Inbox, Link, Lost, Recruiter

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled


@dataclass(frozen=True)
class Processes(Pool):
    """Processes of this machine, with a copy of the model each: one core each on a CPU, or one GPU each.

    For functions that hold Python's lock or are not safe in threads, and for several GPUs. A process that dies is
    replaced, and what it had to do is done again. They start with the first call, in seconds, and go when there was
    nothing to do for a minute. As ever with processes in Python, a script keeps what it does under
    `if __name__ == "__main__":`, and what is sent must be defined in a module or in the script itself.

    Args:
        workers: how many. Default: one per core for a module on the CPU, one per GPU on GPUs, else one.
        gpus_per_worker: 0.5 lets two processes share a GPU. Default: 1.
    """

    workers: int | None = None
    gpus_per_worker: float | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if self.gpus_per_worker is not None and not 0 < self.gpus_per_worker <= 1:
            raise InputError(
                f"gpus_per_worker of processes must be above 0 and at most 1, got {self.gpus_per_worker!r}"
            )

    def open(self, compiled: Compiled) -> Session:
        """Processes that are there for all models of this one."""
        gpus = _visible_gpus() if compiled.device.type == "cuda" else []
        if self.gpus_per_worker is not None and not gpus:
            raise InputError(f"gpus_per_worker needs a model on a GPU, got one on {compiled.device}; leave it out")
        share = self.gpus_per_worker or 1.0
        count = self.workers or (int(len(gpus) / share) if gpus else compiled.workers)
        places = [gpus[int(number * share) % len(gpus)] if gpus else None for number in range(count)]
        plan = (self, count, compiled.threads, tuple(places))
        return open_session(plan, lambda: _Starter(places), compiled)


def check_workers(workers: int | None) -> None:
    """Refuse what is no number of workers."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InputError(f"workers must be at least 1, got {workers!r}")


def _visible_gpus() -> list[str]:
    """The names by which a process can be given one of the GPUs that this one sees."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]


class _Starter(Recruiter):
    """Starts processes, and gives each its GPU."""

    waiting = "processes of this machine take long to start; it may be out of memory"

    def __init__(self, gpus: list[str | None]) -> None:
        self._gpus, self._taken = gpus, set[int]()

    def wanted(self, refused: int) -> int:
        """All: what one process refuses, all refuse."""
        return len(self._gpus)

    def room(self) -> int:
        """The same."""
        return len(self._gpus)

    def start(self, inbox: Inbox) -> Link:
        """The first number whose process is not there."""
        number = next(number for number in range(len(self._gpus)) if number not in self._taken)
        self._taken.add(number)
        return _Process(inbox, number, self._gpus[number], lambda: self._taken.discard(number))

    def stow(self, parcel: bytes) -> bytes:
        """It goes through the pipe."""
        return parcel


class _Process(Link):
    """A process, a pipe to it, and a thread that hears what it says."""

    def __init__(self, inbox: Inbox, number: int, gpu: str | None, on_end: Callable[[], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._inbox, self._on_end = inbox, on_end
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, number, gpu), name=f"smoothcert-worker-{number}", daemon=True
        )
        self._process.start()
        theirs.close()
        threading.Thread(target=self._listen, name=f"smoothcert-listener-{number}", daemon=True).start()

    def call(self, number: int, method: str, *arguments: Any) -> None:
        """Through the pipe; that it is broken is heard by the listener."""
        with suppress(OSError):
            self._pipe.send((number, method, arguments))

    def end(self) -> None:
        """At once: whatever it is doing is not wanted any more."""
        self._on_end()
        self._process.terminate()

    def _listen(self) -> None:
        try:
            while True:
                number, reply = self._pipe.recv()
                self._inbox.put(Answered(self, number, reply))
        except (OSError, EOFError):
            self._process.join(timeout=5)
            self._inbox.put(Lost(self, _ending(self._process.exitcode)))


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"its process was ended by {name} (too little memory?)"
    return (
        f"its process ended with status {code}; if its error is that processes are started while Python starts, "
        'put what the script does under if __name__ == "__main__":'
    )


def _serve(pipe: Connection, number: int, gpu: str | None) -> None:
    """In the process: do what comes through the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent speaks, and ends its workers
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    calls: queue.SimpleQueue[tuple[int, str, tuple[Any, ...]]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, calls), daemon=True).start()
    holder = ModelHolder(f"process {os.getpid()}" + (f" on GPU {gpu}" if gpu is not None else ""))
    while True:
        call, method, arguments = calls.get()
        with suppress(OSError):  # nobody listens any more: the receiver ends the process
            pipe.send((call, getattr(holder, method)(*arguments)))


def _receive(pipe: Connection, calls: queue.SimpleQueue[Any]) -> None:
    """Always ready to take the next call, so that the parent never waits for this process."""
    try:
        while True:
            calls.put(pipe.recv())
    except (OSError, EOFError):
        os._exit(0)  # the parent is gone, and nobody wants what is under way
