"""What a crew knows of its workers, its models and its orders."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothcert.engine.pools.recruiting import Link

CALLS = 2
"""Under way with one worker: one at work, and one on its way, which hides the round trip; more would only queue."""


@dataclass(eq=False)
class Model:
    """A compiled model that workers hold.

    Args:
        key: what it is called.
        stowed: where workers find it.
    """

    key: int
    stowed: Any
    sessions: int = 0  # open now
    holders: int = 0  # workers that hold it
    queue: deque[Order] = field(default_factory=deque)
    awaited: list[Future[None]] = field(default_factory=list)  # resolved when there is a first worker

    def resolve(self) -> None:
        """There is a worker."""
        for first in self.awaited:
            first.set_result(None)
        self.awaited.clear()

    def fail(self, error: Exception) -> None:
        """There will be none."""
        for future in (*self.awaited, *(order.future for order in self.queue)):
            fail(future, error)
        self.awaited.clear()
        self.queue.clear()


@dataclass(frozen=True, eq=False)
class Order:
    """A work that is to be done with a model."""

    model: Model
    work: bytes
    future: Future[Any]


@dataclass(eq=False)
class Member:
    """A worker as its crew sees it."""

    link: Link
    place: str | None = None  # what it is called; None: it has not said anything yet
    models: dict[int, Exception | bool | None] = field(default_factory=dict)  # held; refused; None: asked to
    calls: dict[int, Order | Model | str] = field(default_factory=dict)  # under way, by number

    def holds(self, model: Model) -> bool:
        """Whether it can work on it."""
        return self.models.get(model.key) is True

    def refusal(self, model: Model) -> Exception | None:
        """Why it cannot work on it, if it has said so: the model would be another classifier there."""
        state = self.models.get(model.key)
        return state if isinstance(state, Exception) else None

    @property
    def useless(self) -> bool:
        """It takes up room, and refuses all it was asked to hold."""
        return bool(self.models) and all(isinstance(state, Exception) for state in self.models.values())


def fail(future: Future[Any], error: Exception) -> None:
    """Tell who waits, unless it was cancelled, perhaps just now."""
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
