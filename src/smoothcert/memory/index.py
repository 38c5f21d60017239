"""Which stored regions can be near an input: few of them, and none is missed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from smoothcert.memory.distance import Doubles, Floats

MOST_BLOCKS = 64
FEW = 32  # inputs at a time: what they take stays in the cache
UNDERFLOW = 2.0**-100  # added to every slack: products of tiny float32 numbers are 0


class Index:
    """Features, radii and labels of all regions, in the memory of this process; region k is row k - 1.

    The numbers of an input are split into blocks: squares of an image, runs of a vector. In l2 the features of a block
    are sum / sqrt(size) and the length of what is left when the mean is taken away: the two parts of the block are
    orthogonal, and lengths differ by no more than what they are the lengths of, so the distance between features is at
    most the distance between inputs. In l1 the feature is the sum of the block, and the same holds. So a region whose
    features are farther than R + r away cannot overlap, and is left out; that is the only reason to leave one out.
    """

    def __init__(self, shape: Sequence[int], norm: str) -> None:
        self._norm = norm
        blocks = _blocks(tuple(shape))  # (dim,)
        self._order = np.argsort(blocks, kind="stable")
        self._starts = np.flatnonzero(np.diff(blocks[self._order], prepend=-1))
        self._sizes = np.diff(np.append(self._starts, len(blocks))).astype(np.float64)
        width = len(self._sizes) * (1 if norm == "l1" else 2)
        self._count = 0
        self._features = np.empty((0, width), dtype=np.float32)
        self._lengths = np.empty(0)  # see `_measured`
        self._radii = np.empty(0)
        self._labels = np.empty(0, dtype=np.int64)
        # Features are rounded to float32, and so is every step of their scalar product. Generously.
        self._slack = 16 * (width + 8) * 2.0**-24

    def __len__(self) -> int:
        return self._count

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The class of every region."""
        return self._labels[: self._count]

    @property
    def radii(self) -> Doubles:
        """The radius of every region."""
        return self._radii[: self._count]

    def add(self, inputs: Floats, labels: Sequence[int], radii: Sequence[float]) -> None:
        """Regions (n, dim) that follow those that are there."""
        count = self._count + len(inputs)
        if count > len(self._labels):  # the last that grows
            self._grow(max(1024, 2 * count))
        rows = slice(self._count, count)
        self._features[rows], self._lengths[rows] = self._measured(inputs)
        self._radii[rows], self._labels[rows] = radii, labels
        self._count = count  # last: whoever is interrupted before it has added nothing

    def near(self, inputs: Floats, labels: Sequence[int], radii: Sequence[float]) -> list[list[int]]:
        """The regions near each input (m, dim), ascending, and perhaps some more.

        Near are those that contain it, and those of another class than its label that reach into its radius: d < R + r.
        """
        if not self._count:
            return [[] for _ in inputs]
        own, sizes = self._measured(inputs)  # (m, width), (m,)
        features, lengths = self._features[: self._count], self._lengths[: self._count]
        with np.errstate(over="ignore", invalid="ignore"):
            products = features @ own.T if self._norm == "l2" else None  # (n, m)
            out = []
            for k, (label, radius) in enumerate(zip(labels, radii, strict=True)):
                reach = self.radii + np.where(self.labels == label, 0.0, radius)
                if products is None:
                    least = np.abs(features - own[k]).sum(axis=1, dtype=np.float64)
                    far = least - (self._slack * (lengths + sizes[k]) + UNDERFLOW) >= reach
                else:
                    least = lengths + sizes[k] - 2.0 * products[:, k].astype(np.float64)
                    far = least - (self._slack * (lengths + sizes[k]) + UNDERFLOW) >= reach * reach
                # Where numbers are too large for float32 nothing is known, and the region stays.
                out.append((np.flatnonzero(~(far & np.isfinite(least))) + 1).tolist())
        return out

    def _measured(self, inputs: Floats) -> tuple[Floats, Doubles]:
        """Features of inputs (n, dim), (n, width), and what their rounding is a share of, (n,).

        That is the squared length of the features in l2, which is the input's. In l1 it is the length of the input: the
        sum of a block may be small where its terms are large, and is rounded like them.
        """
        features = self._of(inputs)
        if self._norm == "l1":
            return features, np.abs(inputs).sum(axis=1, dtype=np.float64)
        return features, np.square(features, dtype=np.float64).sum(axis=1)

    def _of(self, inputs: Floats) -> Floats:
        """Features of inputs (n, dim): (n, width)."""
        parts = [self._few(inputs[start : start + FEW]) for start in range(0, len(inputs), FEW)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _few(self, inputs: Floats) -> Floats:
        ordered = inputs[:, self._order].astype(np.float64)  # (n, dim), block by block
        sums = np.add.reduceat(ordered, self._starts, axis=1)  # (n, blocks)
        with np.errstate(over="ignore"):
            if self._norm == "l1":
                return sums.astype(np.float32)
            # Without the mean: the difference is off by a share of 2^-53 size of the square, which the slack covers.
            squares = np.add.reduceat(np.square(ordered, out=ordered), self._starts, axis=1)
            left = np.sqrt(np.maximum(squares - sums * sums / self._sizes, 0.0))
            return np.concatenate([sums / np.sqrt(self._sizes), left], axis=1).astype(np.float32)

    def _grow(self, capacity: int) -> None:
        for name in ("_features", "_lengths", "_radii", "_labels"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)


def _blocks(shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The block of every number: squares of the last two dimensions if there are more than one, at most 64 in all."""
    if len(shape) == 1:
        run = -(-shape[0] // MOST_BLOCKS)
        return np.arange(shape[0]) // run
    height, width = shape[-2:]
    planes = math.prod(shape[:-2])
    side = 1
    while planes * -(-height // side) * -(-width // side) > MOST_BLOCKS and side < max(height, width):
        side += 1
    down, across = -(-height // side), -(-width // side)
    plane, row, column = np.indices((planes, height, width))
    # Planes beyond the most blocks share: a spectrum or a video has many.
    plane = plane * min(planes, MOST_BLOCKS) // planes
    return np.asarray((plane * down + row // side) * across + column // side).reshape(-1)
