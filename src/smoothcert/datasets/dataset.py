"""A split of labelled inputs, and the part of it that a run works on."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from smoothcert.core.errors import InputError

SPLITS = ("train", "test")


def check_labels(labels: npt.NDArray[Any], *, size: int, num_classes: int) -> None:
    """Return only if `labels` are `size` int64 class numbers in 0..num_classes-1; otherwise raise InputError."""
    if labels.shape != (size,) or labels.dtype != np.int64:
        raise InputError(f"labels must be int64 of shape ({size},), one per input, got {labels.dtype} {labels.shape}")
    outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if outside.size:
        row = int(outside[0])
        raise InputError(f"labels must lie in 0..{num_classes - 1}, got {labels[row]} in row {row}")


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of labelled inputs that was checked when it was made and cannot change afterwards.

    Guarantees: there is at least one input and one label for each; labels lie in 0..num_classes-1; images are uint8
    (N, C, H, W) with `input_range` (0, 1), the range of `tensors`; other inputs, such as tables, are finite float32
    (N, ...) with `input_range` None. Both arrays are read-only, so `fingerprint` stays true.
    """

    name: str
    split: str
    inputs: npt.NDArray[Any]  # (N, C, H, W) uint8 or (N, ...) float32
    labels: npt.NDArray[np.int64]  # (N,)
    num_classes: int
    input_range: tuple[float, float] | None
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"split must be 'train' or 'test', got {self.split!r}")
        if self.num_classes < 2 or len(self.class_names) != self.num_classes:
            raise InputError(
                "num_classes must be at least 2 and equal the number of class_names, "
                f"got {self.num_classes} and {len(self.class_names)} names"
            )
        self._check_inputs()
        check_labels(self.labels, size=len(self.inputs), num_classes=self.num_classes)
        for field in ("inputs", "labels"):
            array = np.ascontiguousarray(getattr(self, field)).view()
            array.flags.writeable = False
            object.__setattr__(self, field, array)

    def _check_inputs(self) -> None:
        inputs, images = self.inputs, self.inputs.dtype == np.uint8
        if not images and inputs.dtype != np.float32:
            raise InputError(f"inputs must be uint8 images or float32 tables, got {inputs.dtype}: convert them first")
        if (inputs.ndim != 4 if images else inputs.ndim < 2) or inputs.size == 0:
            raise InputError(
                "inputs must be images (N, C, H, W) or numbers (N, ...) with at least one row and no empty axis, "
                f"got {inputs.dtype} {inputs.shape}"
            )
        if self.input_range != ((0, 1) if images else None):
            raise InputError(f"input_range must be (0, 1) for images and None for tables, got {self.input_range}")
        if not images and not np.isfinite(inputs).all():
            row = int(np.flatnonzero(~np.isfinite(inputs.reshape(len(inputs), -1)).all(axis=1))[0])
            raise InputError(f"inputs must be finite float32 numbers, got another in row {row}: repair or leave it out")

    def __len__(self) -> int:
        return len(self.inputs)

    def tensors(self, indices: Sequence[int]) -> torch.Tensor:
        """Return the chosen inputs as a new float32 tensor (B, C, H, W) or (B, d), in the order of `indices`.

        Images are uint8 / 255, each value rounded once to float32 (IEEE division, the same on every machine); tables
        come as they are.
        """
        rows = np.asarray(indices)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise InputError(f"indices must be a flat sequence of integers, got {rows.dtype} of shape {rows.shape}")
        outside = rows[(rows < 0) | (rows >= len(self))]
        if outside.size:
            raise InputError(f"indices must lie in 0..{len(self) - 1} for {self.name} {self.split}, got {outside[0]}")
        chosen = self.inputs[rows]
        if self.input_range is not None:
            # numpy, not torch: torch may divide by multiplying with the rounded reciprocal.
            chosen = chosen.astype(np.float32) / np.float32(255)
        return torch.from_numpy(chosen)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 (hex) of type, shape and contents of inputs and labels: equal exactly for equal data."""
        digest = hashlib.sha256()
        for array in (self.inputs, self.labels):
            digest.update(f"{array.dtype.newbyteorder('<').str}{array.shape}".encode())
            digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Subset:
    """The inputs start, start + every, start + 2*every, ..., at most `limit` of them.

    This is how the papers cut a test set: `Subset(every=20)` is the CIFAR-10 test set of Cohen et al. (2019), whose
    published logs list the images 0, 20, 40, ...
    """

    start: int = 0
    every: int = 1
    limit: int | None = None

    def __post_init__(self) -> None:
        for field, least in (("start", 0), ("every", 1), ("limit", 1)):
            value = getattr(self, field)
            if field == "limit" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{field} must be an integer of at least {least}, got {value!r}")

    def indices(self, size: int) -> list[int]:
        """Return the chosen indices of a data set of `size` inputs, ascending: at least one, all below `size`."""
        if self.start >= size:
            raise InputError(
                f"start must be below the {size} inputs of the data set, got {self.start}: choose a smaller one"
            )
        return list(range(self.start, size, self.every))[: self.limit]

    def to_json(self) -> dict[str, int | None]:
        """Return the three fields as plain JSON values; `from_json` gives an equal Subset back."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return the Subset that `to_json` wrote, checked like a new one; an unknown field is refused."""
        unknown = sorted(set(fields) - {"start", "every", "limit"})
        if unknown:
            raise InputError(
                f"a subset has the fields start, every and limit, got {', '.join(unknown)}: remove the rest"
            )
        return cls(**fields)
