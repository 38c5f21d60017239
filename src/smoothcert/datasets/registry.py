"""The data sets that are known by name."""

from collections.abc import Callable
from pathlib import Path

from smoothcert.datasets.dataset import Dataset

Reader = Callable[[str, Path], Dataset]
"""Reads one split ("train" or "test") of a data set; the path is the folder under which data sets lie."""

READERS: dict[str, Reader] = {}


def register(name: str) -> Callable[[Reader], Reader]:
    """Make the decorated reader answer `load(name)`; a name that is taken is a programming error."""

    def enter(reader: Reader) -> Reader:
        if name in READERS:
            raise ValueError(f"a reader named {name!r} is registered already")
        READERS[name] = reader
        return reader

    return enter
