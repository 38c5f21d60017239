"""What a crew asks of whoever starts its workers, and of the way to each of them."""

from __future__ import annotations

import pickle
import queue
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothcert.engine.pools.base import Work
from smoothcert.engine.pools.shipping import pack

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Inbox = queue.SimpleQueue[Any]


class Answered(NamedTuple):
    """To the inbox: a worker has answered a call."""

    link: Link
    number: int
    reply: bytes


class Lost(NamedTuple):
    """To the inbox: a worker is gone, or out of reach."""

    link: Link
    reason: str


class Link(ABC):
    """The way to one worker. What it answers (`Answered`), and that it is gone (`Lost`), goes to the inbox."""

    @abstractmethod
    def call(self, number: int, method: str, *arguments: Any) -> None:
        """Call a method of the worker's `ModelHolder`, without waiting; calls are done in their order."""

    @abstractmethod
    def end(self) -> None:
        """End the worker, if it is not gone."""


class Recruiter(ABC):
    """Starts workers of one kind."""

    waiting: str  # why there may be no worker yet, as part of a sentence

    @abstractmethod
    def wanted(self, refused: int) -> int:
        """How many workers there should be now, if so many of them are there and cannot be used."""

    @abstractmethod
    def room(self) -> int:
        """How many there can be now."""

    @abstractmethod
    def start(self, inbox: Inbox) -> Link:
        """Start one, without waiting for it."""

    @abstractmethod
    def stow(self, parcel: bytes) -> Any:
        """Put a packed model where every worker finds it; what comes back is what workers are told."""

    def pack_model(self, compiled: Compiled) -> bytes:
        """As bytes, its tensors in torch's own way: they come back on the device that they were on."""
        return pickle.dumps(compiled)

    def pack(self, work: Work[Any]) -> bytes:
        """As bytes."""
        return pack(work)
