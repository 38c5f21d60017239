"""What a store of regions must do; SQLite and PostgreSQL do it."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from smoothcert.core.errors import InputError

FORMAT = 1


@dataclass(frozen=True)
class Region:
    """The open ball of `radius` around an input: every query in it is answered with `label`. Written once, kept."""

    id: int  # 1, 2, 3, ... in the order of insertion, without gaps
    label: int
    radius: float
    input: bytes  # see `distance.encode`
    about: str  # JSON: the certificate behind it, in short
    digest: str

    @classmethod
    def of(cls, id_: int, label: int, radius: float, input_: bytes, about: Mapping[str, Any]) -> Region:
        """A new region, sealed with its digest."""
        text = json.dumps(about, separators=(",", ":"), sort_keys=True)
        return cls(id_, label, radius, input_, text, _digest(id_, label, radius, input_, text))

    @classmethod
    def read(cls, row: Sequence[Any], after: int) -> Region:
        """A row as it was stored; one that was changed, or does not follow number `after`, is refused."""
        region = cls(row[0], row[1], row[2], bytes(row[3]), row[4], row[5])
        if region.id != after + 1:
            raise InputError(f"memory is damaged: region {after + 1} is missing")
        values = (region.id, region.label, region.radius, region.input, region.about)
        if type(region.radius) is not float or region.digest != _digest(*values):
            raise InputError(f"memory is damaged: region {region.id} is not as it was written")
        return region


def _digest(id_: int, label: int, radius: float, input_: bytes, about: str) -> str:
    content = hashlib.blake2b(f"{id_}/{label}/{float(radius).hex()}/{about}/".encode(), digest_size=16)
    content.update(input_)
    return content.hexdigest()


class Store(ABC):
    """Where regions are kept. What was committed survives a crash; one writes at a time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called, without secrets."""

    @abstractmethod
    def owner(self) -> dict[str, Any] | None:
        """What the store was made with; None if it is not made yet."""

    @abstractmethod
    def create(self, owner: Mapping[str, Any]) -> None:
        """Make the store, at once and whole; if somebody was faster, theirs stays."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """A transaction that no other writer can be in at the same time; undone if it is left by an error."""

    @abstractmethod
    def add(self, region: Region) -> None:
        """Write a region; only inside of `writing`."""

    @abstractmethod
    def after(self, id_: int) -> Iterator[Region]:
        """All regions with larger numbers, in order, as `Region.read` lets them pass."""

    @abstractmethod
    def inputs(self, ids: Sequence[int]) -> list[bytes]:
        """The inputs of these regions (which are there), in this order."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


def read_owner(name: str, text: str) -> dict[str, Any]:
    """The owner as it was written; another format is refused."""
    try:
        owner = json.loads(text)
        known = owner["format"] == FORMAT and isinstance(owner["id"], str)
    except (ValueError, KeyError, TypeError, RecursionError):
        known = False
    if not known:
        raise InputError(f"memory {name} is not of format {FORMAT}, or was damaged; use the version that wrote it")
    return dict(owner)
