"""`Memory`: certified regions that are kept, and answer from then on."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.memory.address import parse_address
from smoothcert.memory.distance import Floats, as_input, decode, distances, encode, tolerance
from smoothcert.memory.index import Index
from smoothcert.memory.overlaps import overlaps
from smoothcert.memory.owner import belonging, new_owner, refuse_other
from smoothcert.memory.postgres import PostgresStore
from smoothcert.memory.rule import Neighbour, decide
from smoothcert.memory.ruled import about, behind_alpha, ruled
from smoothcert.memory.sqlite import SqliteStore
from smoothcert.memory.store import ConnectionLostError, Region, Store
from smoothcert.procedures import Certificate, Scope

ATTEMPTS = 5  # at an insertion, if its store goes away each time
T = TypeVar("T")
CHUNK = 1024  # regions that are read, or compared, at once


@dataclass(frozen=True)
class Found:
    """The stored region that contains an input and reaches furthest around it: it answers with `label`."""

    label: int
    radius: float  # around the input, as far as the region reaches; rounded down
    region: int


class Memory:
    """Certified regions, and the classifier that answers from them; shared by all who open the same store.

    What is claimed: from an insertion on, every query inside the region is answered with its class, by whoever answers
    through this memory. It makes one robust classifier of those that differ from input to input: with a noise, or with
    ensemble weights, of each input's own (`rule`). Regions of different classes never overlap, whatever is inserted
    by however many processes at once; what was inserted survives a crash. The order of insertion matters: who comes
    first is not cut. Nothing is ever removed. An input, and a query, is its float32 numbers.

    A memory belongs to one classifier, one norm (l2 or l1), one family of noise and one shape of inputs; it is made by
    the first insertion. Threads may share one; a process that is forked opens its own, and is refused this one.

    Args:
        where: path of an SQLite file, or postgresql://user@host/database; what is neither is refused.
    """

    def __init__(self, where: str | PathLike[str]) -> None:
        address = parse_address(where)
        self._store: Store = SqliteStore(Path(where)) if address is None else PostgresStore(address)
        self._lock, self._process = threading.RLock(), os.getpid()
        self._owner = self._store.owner()
        self._index: Index | None = None
        self._last = ""  # the digest of the last region in the index
        self._alphas: dict[int, float] = {}  # of the draws behind each region

    @property
    def name(self) -> str:
        """Where it is, without secrets."""
        return self._store.name

    @property
    def owner(self) -> dict[str, Any] | None:
        """What the memory belongs to, and its own id; None as long as nothing was inserted."""
        if os.getpid() != self._process:  # two processes on one connection would both be the only writer
            raise InputError(f"memory {self.name} was opened before this process was forked; open it again")
        with self._lock:
            self._owner = self._owner or self._store.owner()
            return self._owner

    def check_owner(self, classifier: Mapping[str, Any], noise: Mapping[str, Any], shape: Sequence[int]) -> None:
        """Refuse a classifier, a noise (as they describe themselves) or a shape that this memory is not for."""
        wanted = belonging(classifier, noise, shape)
        if self.owner is not None:
            refuse_other(self.name, self.owner, wanted)

    def claim(self, classifier: Mapping[str, Any], noise: Mapping[str, Any], shape: Sequence[int]) -> str:
        """Make the memory for this classifier if it is not made yet, else as `check_owner`; returns its id."""
        with self._lock:
            wanted = belonging(classifier, noise, shape)
            if self.owner is None:
                _again(lambda: self._store.create(new_owner(wanted)))
            assert self.owner is not None
            refuse_other(self.name, self.owner, wanted)
            return str(self.owner["id"])

    def answer(self, x: Any) -> Found | None:
        """The region that contains x and answers for it; None: x is in no region."""
        with self._lock:
            if self.owner is None:
                return None
            one = self._input(x)
            self._refresh()
            around = [near for near in self._near(one, -1, 0.0) if near.inside]
            ruling = decide(-1, 0.0, around)
            return None if ruling.inside is None else Found(ruling.label, ruling.radius, ruling.inside)

    def insert(self, x: Any, certificate: Certificate) -> Certificate:
        """What may be claimed at x (...) beside all regions that are stored; a new region is safe when this returns.

        The certificate comes back with the scope "memory", and with what the draws said in `from_draws`. To insert the
        same again changes nothing and says the same.
        """
        if certificate.scope is Scope.MEMORY:
            raise InputError("certificate was inserted already: insert what the draws said, with another scope")
        if certificate.norm != certificate.noise.get("norm"):
            raise InputError(f"norm of the certificate is {certificate.norm}, its noise has another")
        with self._lock:
            array = as_input(x)
            return _again(lambda: self._insert(array, certificate))

    def _insert(self, array: Floats, certificate: Certificate) -> Certificate:
        self.claim(certificate.classifier, certificate.noise, array.shape)
        one = self._input(array)
        if self._index is None:
            self._refresh()  # the bulk of it, before others have to wait
        with self._store.writing():
            self._refresh()
            near = self._near(one, certificate.label, certificate.radius)
            ruling = decide(certificate.label, certificate.radius, near)
            region = len(self._regions) + 1 if ruling.store else ruling.inside
            # Before anything is stored: what cannot be said must not be kept.
            behind = certificate.alpha if ruling.store or region is None else self._alphas[region]
            answer = ruled(certificate, ruling, region, {n.region: n.label for n in near}, behind)
            if region is not None and ruling.store:
                values = (region, ruling.label, ruling.radius, encode(one), about(certificate))
                self._store.add(Region.of(self._last or self._id, *values))
        return answer

    def check(self) -> list[str]:
        """All that does not hold of the store, in sentences: regions as they were written, none that overlap."""
        with self._lock:
            if self.owner is None:
                raise InputError(f"memory {self.name} does not exist; insert something first")
            self._index, self._last = None, ""  # everything is read again
            try:
                self._refresh()
            except InputError as error:
                return [str(error)]
            return list(overlaps(self._regions, self._store, self.owner))

    def info(self) -> dict[str, Any]:
        """What is in it, in numbers."""
        with self._lock:
            if self.owner is None:
                raise InputError(f"memory {self.name} does not exist; certify with it first")
            self._refresh()
            radii = np.sort(self._regions.radii)
            counts = Counter(self._regions.labels.tolist())
            quantiles = np.quantile(radii, [0, 0.5, 1]).tolist() if len(radii) else [None] * 3
            return {
                "memory": self.name,
                **self.owner,
                "regions": len(radii),
                "by_class": {str(label): counts[label] for label in sorted(counts)},
                "radius": dict(zip(("least", "median", "largest"), quantiles, strict=True)),
            }

    def regions(self) -> Iterator[tuple[Region, Floats]]:
        """All regions in the order of insertion, each with its input."""
        if self.owner is None:
            raise InputError(f"memory {self.name} does not exist; certify with it first")
        with self._lock:
            self._refresh()  # it says if any is missing
        shape = tuple(self.owner["shape"])
        for region in self._store.after(0, self._id):
            yield region, decode([region.input], int(np.prod(shape)))[0].reshape(shape)

    def __len__(self) -> int:
        """How many regions are stored."""
        with self._lock:
            if self.owner is None:
                return 0
            self._refresh()
            return len(self._regions)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def _regions(self) -> Index:
        if self._index is None:
            assert self.owner is not None
            self._index = Index(self.owner["shape"], self.owner["norm"])
        return self._index

    @property
    def _id(self) -> str:
        assert self.owner is not None
        return str(self.owner["id"])

    @property
    def _dim(self) -> int:
        assert self.owner is not None
        return int(np.prod(self.owner["shape"]))

    def _input(self, x: Any) -> Floats:
        array = as_input(x)
        assert self.owner is not None
        if list(array.shape) != self.owner["shape"]:
            raise InputError(f"memory {self.name} has inputs of shape {self.owner['shape']}, got {list(array.shape)}")
        return array

    def _refresh(self) -> None:
        """Read what others have inserted since: what is in a store is never changed, so only what is new.

        The last one that is known must still be there, and so must all that the store says it has: a store into which
        an older copy was put, or whose last regions are gone, is refused.
        """
        index, waiting, head = self._regions, list[Region](), self._store.head()
        if head.regions == len(index) and head.digest == self._last:
            return
        if len(index) and (head.regions <= len(index) or self._store.digest(len(index)) != self._last):
            raise InputError(f"memory {self.name} was put back to an older state while it was open; open it again")

        def take() -> None:
            inputs = decode([region.input for region in waiting], self._dim)
            self._alphas |= {region.id: behind_alpha(region.about) for region in waiting}
            index.add(inputs, [region.label for region in waiting], [region.radius for region in waiting])
            self._last = waiting[-1].digest
            waiting.clear()

        at_head = ""
        for region in self._store.after(len(index), self._last or self._id):
            waiting.append(region)
            at_head = region.digest if region.id == head.regions else at_head
            if len(waiting) == CHUNK:
                take()
        if waiting:
            take()
        if at_head != head.digest:
            self._index, self._last = None, ""
            raise InputError(f"memory {self.name} is damaged: it does not go up to region {head.regions} as it says")

    def _near(self, x: Floats, label: int, radius: float) -> list[Neighbour]:
        """Every region that contains x, or is of another class and reaches into the radius."""
        assert self.owner is not None
        (ids,) = self._regions.near(x.reshape(1, -1), [label], [radius])
        out, t = [], tolerance(self._dim)
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            inputs = decode(self._store.inputs(part), self._dim)
            for region, distance in zip(part, distances(x, inputs, self.owner["norm"]).tolist(), strict=True):
                other, size = int(self._regions.labels[region - 1]), float(self._regions.radii[region - 1])
                near = Neighbour(region, other, size, distance, t)
                if near.inside or (other != label and near.gap < radius):
                    out.append(near)
        return out


def _again(work: Callable[[], T]) -> T:
    """Once more where the store went away in the middle: all of it is there, or nothing, and to repeat it is right."""
    for _ in range(ATTEMPTS - 1):
        try:
            return work()
        except ConnectionLostError:
            continue
    return work()
