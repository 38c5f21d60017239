"""numpy's own files, .npy and .npz, read only where they hold what their headers promise. Nothing is ever unpickled."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from smoothcert.core.files import memory_size, reading_file


def map_npy(path: Path) -> npt.NDArray[Any]:
    """The array of an .npy file, read as it is used; anything else raises ValueError, OSError or what numpy raises."""
    with reading_file(path) as file:  # a device or a pipe is refused
        shape, fortran, dtype = _check_header(file, os.fstat(file.fileno()).st_size)
        start = file.tell()
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


class Archive:
    """The arrays of an .npz file by name, each unpacked when it is asked for.

    No room is made for more than the archive says that it unpacks to, and that is at most half of this machine's
    memory: a few kilobytes can unpack to gigabytes, or promise them.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(stream)
        self.files = [name.removesuffix(".npy") for name in self._zip.namelist()]

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        member = self._zip.getinfo(f"{name}.npy")
        with self._zip.open(member) as stream:
            _check_header(stream, member.file_size)
        if member.file_size > memory_size() // 2:
            raise ValueError(f"an array in it has {member.file_size} bytes, more than half of this machine's memory")
        with self._zip.open(member) as stream:
            return _read(stream)


def _check_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array; refused where its header promises another number of bytes than follow it."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"the version of an array in it is {version[0]}.{version[1]}")
    shape, fortran, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never read")
    promised, there = dtype.itemsize, size - stream.tell()
    for length in shape:
        promised *= int(length)
    if promised != there:
        raise ValueError(f"the header of an array promises {promised} bytes, and it has {there}")
    return shape, fortran, dtype


def _read(stream: IO[bytes]) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array
