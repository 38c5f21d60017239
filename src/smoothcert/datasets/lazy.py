"""Inputs that are read when they are asked for, so that a data set may be larger than memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.datasets.preprocessing import Preprocessing

Array = npt.NDArray[Any]


class LazyInputs(ABC):
    """Stands where an array (N, ...) of inputs stands: it has `shape` and `dtype`, and `inputs[rows]` reads those rows.

    Nothing is kept: who asks twice reads twice.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(N, ...), from headers alone."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """uint8 for images, float32 for everything else."""

    @abstractmethod
    def read(self, index: int) -> Array:
        """One input; what cannot be read, or has another shape than the rest, is refused by an InputError."""

    @abstractmethod
    def name(self, index: int) -> str:
        """What a user calls that input: the name of its file."""

    @abstractmethod
    def identity(self) -> Iterator[bytes]:
        """What tells these inputs from others without reading them: names and sizes of files, how they are prepared.

        Whoever must know that the numbers are the same reads them: a run notes a digest of every input it plans.
        """

    @property
    def preparing(self) -> Preprocessing:
        """What is done to the pixels of image files."""
        return Preprocessing()

    def prepared(self, how: Preprocessing) -> LazyInputs | None:
        """The same, prepared otherwise; None where that cannot be."""
        return None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        """The input of a number, or those of a list, an array or a slice of numbers, stacked."""
        if isinstance(rows, int | np.integer):
            return self.read(range(len(self))[int(rows)])
        chosen = range(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows).tolist()
        out = np.empty((len(chosen), *self.shape[1:]), self.dtype)
        for place, index in enumerate(chosen):
            out[place] = self.read(index)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All of them at once, for whoever has the room."""
        return np.asarray(self[:], dtype=dtype)


class MappedArray(LazyInputs):
    """The rows of an array that stays on disk (`numpy.memmap`): images uint8 (N, C, H, W), or floats (N, ...)."""

    def __init__(self, array: Array, file: str) -> None:
        self._array, self._file = array, file

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8 or float32."""
        return self._array.dtype if self._array.dtype == np.uint8 else np.dtype(np.float32)

    def read(self, index: int) -> Array:
        """One row; floats as float32."""
        return np.array(self._array[index], dtype=self.dtype)

    def name(self, index: int) -> str:
        """The file, and which of its rows where it has several."""
        return self._file if len(self) == 1 else f"{self._file}[{index}]"

    def identity(self) -> Iterator[bytes]:
        """All of its bytes: a mapped array is read fast."""
        yield f"{self._array.dtype.str}{self.shape}".encode()
        for index in range(len(self)):
            yield np.ascontiguousarray(self._array[index]).tobytes()


class Joined(LazyInputs):
    """Several, one after the other; where some are 8-bit images and others floats, all are floats in [0, 1]."""

    def __init__(self, parts: Sequence[LazyInputs]) -> None:
        self._parts = tuple(parts)
        self._ends = list(accumulate(len(part) for part in self._parts))

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return (self._ends[-1], *self._parts[0].shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8 if all are."""
        kinds = {part.dtype for part in self._parts}
        return kinds.pop() if len(kinds) == 1 else np.dtype(np.float32)

    def read(self, index: int) -> Array:
        """From the part that has it."""
        part, row = self._place(index)
        found = part.read(row)
        return found.astype(np.float32) / np.float32(255) if found.dtype != self.dtype else found

    def name(self, index: int) -> str:
        """As its part calls it."""
        part, row = self._place(index)
        return part.name(row)

    def identity(self) -> Iterator[bytes]:
        """Of all parts."""
        for part in self._parts:
            yield from part.identity()

    @property
    def preparing(self) -> Preprocessing:
        """That of its images: all have the same."""
        return next((part.preparing for part in self._parts if part.preparing), Preprocessing())

    def _place(self, index: int) -> tuple[LazyInputs, int]:
        number = bisect_right(self._ends, index)
        return self._parts[number], index - (self._ends[number - 1] if number else 0)
