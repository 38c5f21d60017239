"""Reads integer arrays out of a MATLAB 5 file (MathWorks, "MAT-File Format", level 5), compressed or not.

scipy.io.loadmat reads more, but one changed byte can crash the whole process inside its compiled part (a segmentation
fault in scipy 1.17, found by tests/datasets/test_damage.py). Here every length is checked before it is used.
"""

import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

HEADER = 128
MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 12: "i8", 13: "u8"}
CLASSES = {8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}


def read_mat(raw: bytes, names: Collection[str], *, most: int = 2**30) -> dict[str, npt.NDArray[Any]]:
    """Return those of the named variables that the file has, as integer arrays of the type that MATLAB showed.

    All variables together may unpack to `most` bytes.

    A file of another version, a damaged one, or a named variable that is not a real integer array raises ValueError,
    struct.error or zlib.error. Variables with other names are passed over, whatever they are.
    """
    order = {b"IM": "<", b"MI": ">"}.get(raw[126:HEADER])
    if order is None or struct.unpack_from(f"{order}H", raw, 124) != (0x0100,):
        raise ValueError("it is not a MATLAB 5 file")
    variables = {}
    for kind, contents in _elements(memoryview(raw)[HEADER:], order):
        matrices: Iterable[tuple[int, memoryview]] = [(kind, contents)]
        if kind == COMPRESSED:
            unpacked = _unpacked(contents, most)
            most -= len(unpacked)
            matrices = _elements(memoryview(unpacked), order)
        for inner, matrix in matrices:
            parts = list(_elements(matrix, order)) if inner == MATRIX else []
            name = bytes(parts[2][1]).decode("latin1") if len(parts) > 2 else ""
            if name in names:
                variables[name] = _array(parts, order)
    return variables


def _unpacked(contents: memoryview, most: int) -> bytes:
    """A few kilobytes can unpack to gigabytes: no more than allowed are ever held."""
    stream = zlib.decompressobj()
    unpacked = stream.decompress(contents, most + 1)
    if len(unpacked) > most:
        raise ValueError("it unpacks to more than such a file can hold")
    if not stream.eof:
        raise ValueError("a compressed element in it is cut off")
    return unpacked


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield (type, contents) of the elements that lie one after another in `data`."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}2I", data, at)
        start, room = at + 8, len(data) - at - 8
        following = start + size + (0 if kind == COMPRESSED else -size % 8)
        if kind >> 16:  # the short form: two bytes of length, two of type, up to four of contents
            kind, size, start, room, following = kind & 0xFFFF, kind >> 16, at + 4, 4, at + 8
        if size > room:
            raise ValueError("an element in it is longer than the file")
        yield kind, data[start : start + size]
        at = following


def _array(parts: list[tuple[int, memoryview]], order: str) -> npt.NDArray[Any]:
    if len(parts) != 4:
        raise ValueError("a variable in it is not a real array")
    (_, flags), (_, dimensions), _, (stored, contents) = parts
    shown = struct.unpack_from(f"{order}I", flags)[0] & 0xFF
    if shown not in CLASSES or stored not in STORED:
        raise ValueError("an array in it is not of integers")
    values = np.frombuffer(contents, order + STORED[stored])
    shape = np.frombuffer(dimensions, f"{order}i4").tolist()
    if min(shape) < 0:
        raise ValueError("an array in it has a negative length")
    return values.astype(CLASSES[shown], copy=False).reshape(shape, order="F")
