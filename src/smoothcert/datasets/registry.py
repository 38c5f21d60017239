"""The data sets that are known by name."""

from collections.abc import Callable
from pathlib import Path

from smoothcert.core.registry import Registry
from smoothcert.datasets.dataset import Dataset

Reader = Callable[[str, Path], Dataset]
"""Reads one split ("train" or "test") of a data set; the path is the folder under which data sets lie."""

READERS: Registry[Reader] = Registry("data set")


def register(name: str) -> Callable[[Reader], Reader]:
    """Make the decorated reader answer `load(name)`; a name that is taken is refused."""
    return READERS.named(name)


def names() -> tuple[str, ...]:
    """The names that `load` knows, sorted."""
    return tuple(sorted(READERS))
