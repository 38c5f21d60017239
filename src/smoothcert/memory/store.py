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

FORMAT = 2


class ConnectionLostError(InputError):
    """The store went away in the middle of a transaction, of which nothing, or all, is there when it comes back."""


@dataclass(frozen=True)
class Region:
    """The open ball of `radius` around an input: every query in it is answered with `label`. Written once, kept.

    Its digest is of itself and of the digest of the region before it (of the first: the memory's id), so that no region
    can be changed, left out, exchanged or brought in from elsewhere without being noticed.
    """

    id: int  # 1, 2, 3, ... in the order of insertion, without gaps
    label: int
    radius: float
    input: bytes  # see `distance.encode`
    about: str  # JSON: the certificate behind it, in short
    digest: str

    @classmethod
    def of(cls, before: str, id_: int, label: int, radius: float, input_: bytes, about: Mapping[str, Any]) -> Region:
        """A new region, sealed with its digest; `before` is that of the region before it."""
        text = json.dumps(about, separators=(",", ":"), sort_keys=True)
        return cls(id_, label, radius, input_, text, _digest(before, id_, label, radius, input_, text))

    @classmethod
    def read(cls, row: Sequence[Any], after: int, before: str) -> Region:
        """A row as it was stored; one that was changed, or does not follow number `after`, is refused."""
        if tuple(map(type, row)) != (int, int, float, bytes, str, str):
            raise InputError(f"memory is damaged: region {after + 1} is not as it was written")
        region = cls(*row)
        if region.id != after + 1:
            raise InputError(f"memory is damaged: region {after + 1} is missing")
        if region.digest != _digest(before, *row[:5]):
            raise InputError(f"memory is damaged: region {region.id} is not as it was written")
        return region


def _digest(before: str, id_: int, label: int, radius: float, input_: bytes, about: str) -> str:
    content = hashlib.blake2b(f"{before}/{id_}/{label}/{float(radius).hex()}/{about}/".encode(), digest_size=16)
    content.update(input_)
    return content.hexdigest()


@dataclass(frozen=True)
class Head:
    """How far a store goes: the number and the digest of its last region (0 and "" where there is none)."""

    regions: int = 0
    digest: str = ""


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
        """A transaction that no other writer can be in at the same time; undone if it is left by an error.

        `ConnectionLostError` means that all of it, or nothing, was done.
        """

    @abstractmethod
    def add(self, region: Region) -> None:
        """Write a region, and that it is the last; only inside of `writing`."""

    @abstractmethod
    def head(self) -> Head:
        """How far the store goes: regions up to there must be there."""

    @abstractmethod
    def digest(self, id_: int) -> str | None:
        """The digest of a region; None if it is not there."""

    @abstractmethod
    def after(self, id_: int, digest: str) -> Iterator[Region]:
        """All regions with larger numbers, in order, as `Region.read` lets them pass; `digest` is that of number id_.

        Of 0 it is the id of the memory.
        """

    @abstractmethod
    def inputs(self, ids: Sequence[int]) -> list[bytes]:
        """The inputs of these regions (which are there), in this order."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


def write_owner(owner: Mapping[str, Any]) -> str:
    """The owner as it is stored, under a digest."""
    text = json.dumps(owner)
    return json.dumps({"format": owner["format"], "owner": text, "digest": hashlib.sha256(text.encode()).hexdigest()})


def read_owner(name: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The owner as it was written, from the only row; another format, or a changed one, is refused."""
    try:
        ((text,),) = rows
        stored = json.loads(text)
        found = stored["format"]
        if type(found) is int and found != FORMAT:
            raise InputError(
                f"memory {name} has format {found}, but this version reads {FORMAT}; use the version that wrote it, or "
                "certify into a new memory"
            )
        owner = stored["owner"]
        whole = found == FORMAT and hashlib.sha256(owner.encode()).hexdigest() == stored["digest"]
        parsed = json.loads(owner) if whole else None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InputError(f"memory {name} is damaged: what it belongs to is not as it was written")
    return parsed
