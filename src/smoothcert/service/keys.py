"""The keys of a server, one after the other: each has its folder, and is changed after a time or many answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from smoothcert.core.secret import SecretKey
from smoothcert.procedures import Procedure
from smoothcert.service.errors import TurnedAwayError
from smoothcert.service.journal import Journal, ServiceConfig, asked_procedure
from smoothcert.service.limits import Limits


class KeyInUse:
    """A key, its folder, and the questions that are open under it. It is closed after the last of them."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self.journal, self._clock = journal, clock
        self.since = clock()
        self._open = 0
        self._retired = False
        self._lock = threading.Lock()
        self._settings: set[str] = set()

    @property
    def hash(self) -> str:
        """What is published."""
        return self.journal.key.hash

    def seed(self, procedure: Procedure, most: int) -> int:
        """Of the draws for a procedure; at most so many different procedures."""
        name = asked_procedure(procedure.describe())
        with self._lock:
            if name not in self._settings and len(self._settings) >= most:
                raise TurnedAwayError(
                    f"{most} different settings of radius, alpha and n were used under this key; ask with one of them",
                    retry_after=3600,
                )
            self._settings.add(name)
        return self.journal.key.seed(procedure.describe())

    def take(self) -> bool:
        """A question more; False: too late."""
        with self._lock:
            self._open += not self._retired
            return not self._retired

    def give_back(self) -> None:
        """A question less."""
        with self._lock:
            self._open -= 1
            self._close_at_last()

    def retire(self) -> None:
        """No further question."""
        with self._lock:
            self._retired = True
            self._close_at_last()

    def _close_at_last(self) -> None:
        if self._retired and not self._open:
            self.journal.close()


class KeyRing:
    """The key that is in use now. `on_new` hears the hash of each, before anything is drawn under it."""

    def __init__(
        self,
        out: Path,
        config: ServiceConfig,
        limits: Limits,
        *,
        on_new: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out, self._config, self._limits, self._on_new, self._clock = out, config, limits, on_new, clock
        self._lock = threading.Lock()
        out.mkdir(mode=0o700, parents=True, exist_ok=True)  # it will hold what clients sent
        self._current = self._new()

    def current(self) -> KeyInUse:
        """The key for a question that comes now; a new one where the old has done enough."""
        with self._lock:
            key = self._current
            old = self._clock() - key.since >= self._limits.rotate_every
            if old or len(key.journal) >= self._limits.answers_per_key:
                self._rotate()
            return self._current

    def rotate(self) -> None:
        """Take a new key into use, now."""
        with self._lock:
            self._rotate()

    def close(self) -> None:
        """The last key has done its work."""
        with self._lock:
            self._current.retire()

    def _rotate(self) -> None:
        old, self._current = self._current, self._new()
        old.retire()

    def _new(self) -> KeyInUse:
        key = SecretKey.new()
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        journal = Journal(self._out / f"{now}-{key.hash[:12]}", replace(self._config, key=key.hash), key)
        self._on_new(key.hash)
        return KeyInUse(journal, self._clock)
