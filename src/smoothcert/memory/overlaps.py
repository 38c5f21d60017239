"""The invariant of a whole store: regions of different classes do not overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from smoothcert.memory.distance import decode, distances, tolerance
from smoothcert.memory.index import Index
from smoothcert.memory.store import Store

CHUNK = 128  # regions that are looked at together


def overlaps(index: Index, store: Store, owner: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for every pair of regions of different classes with R_i + R_j > (1 - t) d_ij.

    Regions that were cut by the rule are clear of each other by more than that, in spite of rounding (`rule`).
    """
    dim, norm = math.prod(owner["shape"]), owner["norm"]
    labels, radii = index.labels, index.radii
    for start in range(0, len(index), CHUNK):
        ids = list(range(start + 1, min(start + CHUNK, len(index)) + 1))
        rows = slice(start, start + len(ids))
        inputs = decode(store.inputs(ids), dim)
        for id_, x, others in zip(
            ids, inputs, index.near(inputs, labels[rows].tolist(), radii[rows].tolist()), strict=True
        ):
            earlier = [other for other in others if other < id_ and labels[other - 1] != labels[id_ - 1]]
            for at in range(0, len(earlier), CHUNK):
                part = earlier[at : at + CHUNK]
                apart = distances(x, decode(store.inputs(part), dim), norm)
                for other, distance in zip(part, apart, strict=True):
                    if radii[id_ - 1] + radii[other - 1] > (1 - tolerance(dim)) * distance:
                        classes = f"{labels[other - 1]} and {labels[id_ - 1]}"
                        yield f"regions {other} and {id_} are of the classes {classes} and overlap"
