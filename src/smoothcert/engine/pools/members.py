"""What a crew knows of its workers, its models and its orders."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothcert.core.errors import InputError
    from smoothcert.engine.pools.crew import Link

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

    def fail(self, error: InputError) -> None:
        """There will be none."""
        for future in (*self.awaited, *(order.future for order in self.queue)):
            if not future.cancelled():
                future.set_exception(error)
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

    def refuses(self, model: Model) -> bool:
        """Whether the model would be another classifier there."""
        return isinstance(self.models.get(model.key), Exception)

    @property
    def useless(self) -> bool:
        """It takes up room, and refuses all it was asked to hold."""
        return bool(self.models) and all(isinstance(state, Exception) for state in self.models.values())
