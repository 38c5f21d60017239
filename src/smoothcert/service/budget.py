"""How much one client may ask for: so many requests per second, so many new answers per day."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta

from smoothcert.service.errors import TurnedAwayError

BURST = 20  # requests at once
CLIENTS = 100_000  # that are remembered; then those who came first are forgotten


class Rate:
    """Requests of each client, per second on average (a leaky bucket)."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._level: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how full, and when

    def take(self, client: str) -> None:
        """One more request, or a refusal."""
        now = self._clock()
        level, then = self._level.pop(client, (0.0, now))
        level = max(0.0, level - (now - then) * self._rate)
        over = level + 1 - max(BURST, self._rate)
        self._level[client] = (level if over > 0 else level + 1, now)
        if len(self._level) > CLIENTS:
            self._level.popitem(last=False)
        if over > 0:
            raise TurnedAwayError(
                f"at most {self._rate:g} requests per second are answered to one client; ask more slowly",
                retry_after=over / self._rate,
            )


class DailyAnswers:
    """New questions of each client and day, each paid for once: asked again, it gets the same draws.

    A question that was given up stays paid for if any of its votes could be seen. Else a client could look at the votes
    of many inputs and let only the lucky ones be answered: each answer is false with probability at most alpha, but
    among answers that were chosen by their votes more are false than that.
    """

    def __init__(self, most: int | None, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._most, self._clock, self._lock = most, clock, threading.Lock()
        self._day = clock().date()
        self._spent: dict[str, set[Hashable]] = {}

    def spend(self, client: str, question: Hashable) -> None:
        """One more question, or a refusal."""
        if self._most is None:
            return
        with self._lock:
            now = self._clock()
            if now.date() != self._day:
                self._day, self._spent = now.date(), {}
            spent = self._spent.setdefault(client, set())
            if question not in spent and len(spent) >= self._most:
                tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
                raise TurnedAwayError(
                    f"all {self._most} answers of this client for today were given, and each may be false with "
                    "probability alpha; ask again tomorrow (UTC)",
                    retry_after=(tomorrow - now).total_seconds(),
                )
            spent.add(question)

    def give_back(self, client: str, question: Hashable) -> None:
        """Nothing was told of its votes."""
        with self._lock:
            self._spent.get(client, set()).discard(question)
