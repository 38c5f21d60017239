"""A session that somebody looks at: how full are the batches that are handed out?"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from smoothcert.engine.pieces import Batch
from smoothcert.engine.pools.base import Session, Work

Result = TypeVar("Result")


class WatchedSession(Session):
    """Another session, which it opens no second time; `on_batch` hears the rows of every batch, and of how many."""

    def __init__(self, session: Session, on_batch: Callable[[int, int], None]) -> None:
        self._session, self._on_batch = session, on_batch

    @property
    def workers(self) -> int:
        """As of the other."""
        return self._session.workers

    @property
    def in_flight(self) -> int:
        """As of the other."""
        return self._session.in_flight

    def submit(self, work: Work[Result]) -> Future[Result]:
        """Hand on."""
        if isinstance(work, Batch):
            rows = sum(piece.rows for piece in work.pieces)
            self._on_batch(rows, -(-rows // work.rows_per_call) * work.rows_per_call)
        return self._session.submit(work)

    def close(self) -> None:
        """As the other."""
        self._session.close()
