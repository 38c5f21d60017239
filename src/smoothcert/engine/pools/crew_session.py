"""A session of a crew, and which crews there are: one per plan, for the life of the process."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from smoothcert.engine.pools.base import Session, Work
from smoothcert.engine.pools.crew import Crew
from smoothcert.engine.pools.members import CALLS
from smoothcert.engine.pools.recruiting import Recruiter

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Result = TypeVar("Result")


class CrewSession(Session):
    """A crew at work on one compiled model."""

    def __init__(self, crew: Crew, compiled: Compiled) -> None:
        self._crew, self._model = crew, crew.enlist(compiled)
        self._compiled: Compiled | None = compiled  # its workers drop the model when nobody has it any more
        self._under_way: set[Future[Any]] = set()

    @property
    def workers(self) -> int:
        """Those that hold the model."""
        return max(1, self._model.holders)

    @property
    def in_flight(self) -> int:
        """One at work and one on its way, for each: the round trip is hidden, and nobody has a long queue."""
        return CALLS * self.workers

    def submit(self, work: Work[Result]) -> Future[Result]:
        """Hand out."""
        future = self._crew.submit(self._model, work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def close(self) -> None:
        """Give up what was not begun, and wait for what was."""
        rest = tuple(self._under_way)
        for future in rest:
            future.cancel()
        wait(rest)
        if self._compiled is not None:
            self._compiled = None
            self._crew.leave(self._model)


_crews: dict[Hashable, Crew] = {}
_lock = threading.Lock()


def open_session(plan: Hashable, new_recruiter: Callable[[], Recruiter], compiled: Compiled) -> Session:
    """A session of the workers of a plan, which are started when first asked for, and again if they have ended."""
    mine = _crew(plan, new_recruiter)
    if not mine.has_workers:
        for other in tuple(_crews.values()):
            if other is not mine:
                other.rest()  # it may hold the room that these need
    return CrewSession(mine, compiled)


def _crew(key: Hashable, new_recruiter: Callable[[], Recruiter]) -> Crew:
    with _lock:
        if key not in _crews or not _crews[key].alive:
            _crews[key] = Crew(new_recruiter())
            # Now, not when this module is loaded: at the end of Python it comes before what its workers rest on.
            atexit.register(_crews[key].close)
        return _crews[key]


def close_all() -> None:
    """End all workers elsewhere."""
    with _lock:
        crews = list(_crews.values())
        _crews.clear()
    for one in crews:
        atexit.unregister(one.close)
        one.close()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 (it may have been held when the process was forked)
    _lock = threading.Lock()
    for one in _crews.values():
        atexit.unregister(one.close)
    _crews.clear()  # a child has no thread that would speak for them


os.register_at_fork(after_in_child=_after_fork)
