"""A split of inputs, mostly labelled, and the part of it that a run works on."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.datasets.lazy import LazyInputs
from smoothcert.datasets.preprocessing import Preprocessing

SPLITS = ("train", "test")
PART_BYTES = 2**26  # of inputs as float32 that are in memory together


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
    """One split of inputs that was checked when it was made and cannot change afterwards.

    Guarantees: there is at least one input and one label for each; labels lie in 0..num_classes-1, or nobody knows
    them (`unlabelled`), and then there need not be names of classes. Images are uint8 (N, C, H, W) with `input_range`
    (0, 1), the range of `tensors`; other inputs, such as tables and float images, are finite float32 (N, ...) with
    `input_range` None. Arrays are read-only, so `fingerprint` stays true; inputs that are `LazyInputs` are read, and
    checked, when they are asked for.
    """

    name: str
    split: str
    inputs: npt.NDArray[Any] | LazyInputs  # (N, C, H, W) uint8 or (N, ...) float32
    labels: npt.NDArray[np.int64]  # (N,)
    num_classes: int
    input_range: tuple[float, float] | None
    class_names: tuple[str, ...]
    label_column: str | None = None  # of a table

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"split must be 'train' or 'test', got {self.split!r}")
        least = 0 if self.unlabelled else 2
        if self.num_classes < least or len(self.class_names) != self.num_classes:
            raise InputError(
                "num_classes must be at least 2 and equal the number of class_names, "
                f"got {self.num_classes} and {len(self.class_names)} names"
            )
        self._check_inputs()
        if not self.unlabelled:
            check_labels(self.labels, size=len(self.inputs), num_classes=self.num_classes)
        for name in ("inputs", "labels"):
            if not isinstance(getattr(self, name), LazyInputs):
                array = np.ascontiguousarray(getattr(self, name)).view()
                array.flags.writeable = False
                object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        kind = f"{len(self.inputs)} inputs of shape {tuple(self.inputs.shape[1:])} ({self.inputs.dtype})"
        return f"Dataset({self.name!r}, {self.split!r}: {kind}, {self.num_classes} classes)"

    def _check_inputs(self) -> None:
        inputs, images = self.inputs, self.inputs.dtype == np.uint8
        if not images and inputs.dtype != np.float32:
            raise InputError(f"inputs must be uint8 images or float32 numbers, got {inputs.dtype}: convert them first")
        if (len(inputs.shape) != 4 if images else len(inputs.shape) < 2) or 0 in inputs.shape:
            raise InputError(
                "inputs must be images (N, C, H, W) or numbers (N, ...) with at least one row and no empty axis, "
                f"got {inputs.dtype} {inputs.shape}"
            )
        if self.input_range != ((0, 1) if images else None):
            raise InputError(f"input_range must be (0, 1) for 8-bit images, else None, got {self.input_range}")
        if not isinstance(inputs, LazyInputs) and not images:
            _check_finite(inputs, range(len(inputs)))

    @property
    def unlabelled(self) -> bool:
        """Nobody knows the truth about any input: they can be certified, and nothing is right or wrong."""
        return self.labels.shape == (len(self.inputs),) and bool((self.labels == UNKNOWN).all())

    def require_labels(self, what: str) -> None:
        """Refuse to do `what` without labels."""
        if self.unlabelled:
            raise InputError(
                f"{what} needs labels, and {self.name} has none; give images in a folder per class, or arrays with y"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return tuple(self.inputs.shape[1:])

    @property
    def preprocessing(self) -> Preprocessing:
        """What was done to the pixels of image files: the inputs are what came out."""
        return self.inputs.preparing if isinstance(self.inputs, LazyInputs) else Preprocessing()

    @property
    def prepares_images(self) -> bool:
        """Whether the inputs are image files, which can be resized and cropped."""
        return isinstance(self.inputs, LazyInputs) and self.inputs.prepared(self.preprocessing) is not None

    def prepared(self, how: Preprocessing) -> "Dataset":
        """The same images resized and cropped otherwise; refused for inputs that are not image files."""
        if not how or how == self.preprocessing:
            return self
        inputs = self.inputs.prepared(how) if isinstance(self.inputs, LazyInputs) else None
        if inputs is None:
            raise InputError(
                f"--resize and --crop go with image files, and {self.name} has inputs of shape {self.shape} each; "
                "leave them out"
            )
        return replace(self, inputs=inputs)

    def input_name(self, index: int) -> str:
        """What a user calls an input: its file, or its number in the data set."""
        if isinstance(self.inputs, LazyInputs):
            return self.inputs.name(index)
        return f"{self.name} {index}"

    def parts(self, indices: Sequence[int]) -> Iterator[list[int]]:
        """The same indices in parts, of which each fits into memory with ease as `tensors`."""
        at_once = max(1, PART_BYTES // (4 * int(np.prod(self.shape))))
        for start in range(0, len(indices), at_once):
            yield list(indices[start : start + at_once])

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
        if self.input_range is None and isinstance(self.inputs, LazyInputs):
            _check_finite(chosen, rows)
        if self.input_range is not None:
            # numpy, not torch: torch may divide by multiplying with the rounded reciprocal.
            chosen = chosen.astype(np.float32) / np.float32(255)
        return torch.from_numpy(chosen)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 (hex) of type, shape and contents of inputs and labels: equal exactly for equal data.

        Of inputs that are read lazily: of what identifies them without reading (`LazyInputs.identity`), and labels.
        """
        digest = hashlib.sha256()
        arrays = [self.labels]
        if isinstance(self.inputs, LazyInputs):
            for part in self.inputs.identity():
                digest.update(part)
        else:
            arrays.insert(0, self.inputs)
        for array in arrays:
            digest.update(f"{array.dtype.newbyteorder('<').str}{array.shape}".encode())
            digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
        return digest.hexdigest()


def _check_finite(inputs: npt.NDArray[Any], rows: Sequence[int] | npt.NDArray[Any]) -> None:
    if not np.isfinite(inputs).all():
        place = int(np.flatnonzero(~np.isfinite(inputs.reshape(len(inputs), -1)).all(axis=1))[0])
        raise InputError(
            f"inputs must be finite float32 numbers, got another in row {rows[place]}: repair or leave it out"
        )


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
