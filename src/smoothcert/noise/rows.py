"""Noise of single rows, from the bits of a `RowStream`: what noises of the package share when they draw on a CPU.

Here is numpy, not torch: its functions take and give arrays of any strides, so that noise is written where the model
reads it, and a number is the same whichever rows are drawn beside it (`tests/noise/test_rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcert.core.randomness import RowStream, Scratch

Floats = NDArray[np.float32]

SCRATCH = Scratch()

AT_ONCE = 2**19
"""Bytes of random bits that are made at a time: few parts, and not more memory than caches hold."""


def parts(rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Rows that are drawn at once."""
    step = max(1, AT_ONCE // bytes_per_row)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def signed_words(stream: RowStream, first: int, rows: int, count: int) -> Floats:
    """32 random bits each, as whole numbers from -2^31 to 2^31, rounded to float32: (rows, count)."""
    bits = stream.bits(first, rows, 4 * count, SCRATCH).view("<i4")
    return bits[:, :count].astype(np.float32)


def log_uniform(words: Floats) -> Floats:
    """log(U) of signed words, in place: U = (|word| + 1/2) / 2^31, so never 0; uniform to 2^-32."""
    np.abs(words, out=words)
    words += np.float32(0.5)
    words *= np.float32(2.0**-31)
    return np.log(words, out=words)


def fill_normals(stream: RowStream, first: int, out: Floats) -> None:
    """Independent standard normals into out (rows, d), by the method of Box and Muller (1958), in float32.

    A pair (R cos a, R sin a) takes 64 bits: R^2 = -2 log U reaches 6.6 standard deviations, where torch's own normals,
    made in the same way from 24 bits, end at 5.8. Beyond lies a mass of 3e-11.
    """
    rows, d = out.shape
    half = -(-d // 2)
    for part in parts(rows, 8 * half):
        bits = stream.bits(first + part.start, part.stop - part.start, 8 * half, SCRATCH).view("<i4")
        radius, angle = (bits[:, at : at + half].astype(np.float32) for at in (0, half))  # (rows, half), contiguous
        log_uniform(radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle *= np.float32(np.pi * 2.0**-31)
        np.multiply(np.cos(angle), radius, out=out[part, :half])
        np.multiply(np.sin(angle)[:, : d - half], radius[:, : d - half], out=out[part, half:])


def fill_laplace(stream: RowStream, first: int, out: Floats) -> None:
    """Independent Laplace numbers of scale 1 into out (rows, d): an exponential and a sign, from 32 bits."""
    rows, d = out.shape
    for part in parts(rows, 4 * d):
        words = signed_words(stream, first + part.start, part.stop - part.start, d)
        np.copysign(log_uniform(words.copy()), words, out=out[part])


def fill_uniform(stream: RowStream, first: int, out: Floats) -> None:
    """Independent uniform numbers between -1 and 1 into out (rows, d), from 32 bits."""
    rows, d = out.shape
    for part in parts(rows, 4 * d):
        words = signed_words(stream, first + part.start, part.stop - part.start, d)
        words += np.float32(0.5)
        np.multiply(words, np.float32(2.0**-31), out=out[part])


def words_of(stream: RowStream, first: int, rows: int, sizes: tuple[str, ...], count: int) -> list[NDArray[Any]]:
    """Random words of several types, such as ("<u8", "<u4"), `count` of each: (rows, count) arrays of whole numbers."""
    widths = [count * np.dtype(size).itemsize for size in sizes]
    bits = stream.bits(first, rows, sum(widths), SCRATCH)
    ends = np.cumsum([0, *widths])
    return [bits[:, a:b].view(size) for a, b, size in zip(ends, ends[1:], sizes, strict=False)]
