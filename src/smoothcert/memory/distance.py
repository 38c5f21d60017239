"""Inputs as they are kept, and the distances between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError

NORMS = ("l2", "l1")
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_LEVELS = np.float32(255)


def check_norm(norm: str) -> None:
    """Refuse a norm whose regions are not kept."""
    if norm not in NORMS:
        raise InputError(f"memory keeps regions in {' and '.join(NORMS)}, got norm {norm}; certify without a memory")


def as_input(x: Any) -> Floats:
    """One input as float32; what is not finite numbers is refused."""
    array = np.asarray(x)
    if array.dtype.kind == "f" and array.size:
        with np.errstate(over="ignore"):
            single = np.ascontiguousarray(array, dtype=np.float32)
        if np.isfinite(single).all():  # what is too large for float32 is not
            return single
    raise InputError(f"an input of a memory must be finite floating-point numbers, got {array.dtype} {array.shape}")


def encode(x: Floats) -> bytes:
    """An input as it is kept: one byte per number if every number is that of an 8-bit image, m/255, else float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint(x * _LEVELS)
        small = np.clip(steps, 0, 255).astype(np.uint8)
    # The same bits: -0.0 is not the 0.0 of an image.
    same = np.array_equal((small.astype(np.float32) / _LEVELS).view(np.uint32), x.view(np.uint32))
    return small.tobytes() if same else x.astype("<f4").tobytes()


def decode(content: Sequence[bytes], dim: int) -> Floats:
    """Kept inputs, (n, dim), bit for bit as they were given."""
    out = np.empty((len(content), dim), dtype=np.float32)
    for row, data in zip(out, content, strict=True):
        if not isinstance(data, bytes):  # NULL, in a file that was changed
            raise InputError("memory is damaged: an input in it is not one; run memory check")
        if len(data) == dim:
            np.divide(np.frombuffer(data, dtype=np.uint8), _LEVELS, out=row, dtype=np.float32)
        elif len(data) == 4 * dim:
            row[:] = np.frombuffer(data, dtype="<f4")
        else:
            raise InputError(f"memory is damaged: an input of {dim} numbers is kept in {len(data)} bytes")
    return out


def distances(x: Floats, others: Floats, norm: str) -> Doubles:
    """Distances of x (...) to others (n, dim), in float64; true up to a factor 1 +- tolerance(dim) / 2."""
    moved = others.astype(np.float64) - x.reshape(1, -1).astype(np.float64)  # (n, dim)
    if norm == "l1":
        return np.asarray(np.abs(moved).sum(axis=1))
    return np.asarray(np.sqrt(np.square(moved).sum(axis=1)))


def tolerance(dim: int) -> float:
    """t: twice what a computed distance of `dim` numbers may be off, relatively.

    A difference of two float32 numbers is rounded once in float64, so is its square, and a sum of dim terms that are
    not negative is off by at most dim roundings of 2^-53, in any order (Higham 2002, section 4.2). No square of such a
    difference overflows or underflows.
    """
    return (dim + 8) * 2.0**-52
