"""What classes are called: by their folders, by a file, or by the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file
from smoothcert.core.text import visible
from smoothcert.datasets.dataset import Dataset
from smoothcert.datasets.files import reading

MOST_BYTES = 2**24


def read_class_names(path: Path) -> tuple[str, ...]:
    """One name per line, in the order of the class numbers; empty lines at the end do not count."""
    with reading(path, kind="names of classes", remedy="give a text file with one name per line"):
        lines = read_file(path, most=MOST_BYTES).decode("utf-8").rstrip().splitlines()
    names = tuple(visible(line.strip(), lines=False) for line in lines)
    if len(names) < 2 or "" in names or len(set(names)) < len(names):
        raise InputError(f"{path} must have at least two different names, one per line and none empty")
    return names


def is_numbered(names: Sequence[str]) -> bool:
    """Whether these are no names, but the numbers of the classes."""
    return all(name == str(number) for number, name in enumerate(names))


def with_class_names(data: Dataset, names: Sequence[str], *, said_by: str) -> Dataset:
    """The same data with classes numbered and called as `names` says.

    Where classes have names of their own, from folders, each is found in `names`, which may say more about it
    ("n01440764 tench, Tinca tinca" is the class of the folder n01440764): so folders of a few classes get the numbers
    that the model knows them by. Where they only have numbers, they are given the names. Anything else is refused,
    saying who said so (`said_by`).
    """
    own, wanted = data.class_names, tuple(names)
    if own == wanted:
        return data
    if is_numbered(own):
        if len(wanted) < len(own):
            raise InputError(f"{said_by} has {len(wanted)} classes, but {data.name} has {len(own)}; name all of them")
        return replace(data, num_classes=len(wanted), class_names=wanted)
    number = {name: label for label, name in enumerate(wanted)}
    if not set(own) <= set(number):
        number = {name.split(maxsplit=1)[0]: label for label, name in enumerate(wanted)}
        wanted = tuple(name.split(maxsplit=1)[-1] for name in wanted)
    missing = [name for name in own if name not in number]
    if missing:
        raise InputError(
            f"{said_by} has no class {missing[0]!r}, which {data.name} has; give the names of all classes, in the "
            "order in which the model numbers them, with --class-names FILE"
        )
    new = np.array([number[name] for name in own], dtype=np.int64)
    return replace(data, labels=new[data.labels], num_classes=len(wanted), class_names=wanted)
