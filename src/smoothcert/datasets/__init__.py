"""Data sets: standard files, packaged images and your own arrays, tables and images, each one checked `Dataset`.

A new data set by name is one file with a reader under `@register("name")`: every module of this package is imported.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from smoothcert.core.errors import InputError
from smoothcert.core.registry import import_all
from smoothcert.datasets.arrays import from_arrays
from smoothcert.datasets.class_names import is_numbered, read_class_names, with_class_names
from smoothcert.datasets.dataset import SPLITS, Dataset, Subset
from smoothcert.datasets.folder import read_folder
from smoothcert.datasets.images import SUFFIXES
from smoothcert.datasets.npz import read_npz
from smoothcert.datasets.preprocessing import Preprocessing
from smoothcert.datasets.registry import READERS, Reader, names, register
from smoothcert.datasets.table import SUFFIXES as TABLES
from smoothcert.datasets.table import read_table
from smoothcert.datasets.unlabelled import read_unlabelled

__all__ = [
    "SPLITS",
    "Dataset",
    "Preprocessing",
    "ReadOptions",
    "Reader",
    "Subset",
    "from_arrays",
    "is_numbered",
    "load",
    "names",
    "read_class_names",
    "read_unlabelled",
    "register",
    "with_class_names",
]


@dataclass(frozen=True)
class ReadOptions:
    """How data are read that leave something open.

    Args:
        preprocessing: how image files are resized and cropped. Default: they are not, or as is usual for the data.
        label_column: of a table. Default: label, class, target or y.
        class_names: of all classes, in the order of their numbers. Default: as folders and files have them.
    """

    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    label_column: str | None = None
    class_names: tuple[str, ...] | None = None


def load(
    source: str | os.PathLike[str],
    split: str = "test",
    *,
    root: Path | None = None,
    options: ReadOptions | None = None,
    shape: Sequence[int] | None = None,
) -> Dataset:
    """Return one split of a data set, the same for the same files on every machine.

    `source` is one of `names()`, or a path to an .npz file, a folder of images, a table (.csv, .parquet), or to inputs
    without labels: an image, or an .npy array (a name goes before a path: write ./mnist for a folder called mnist).
    Names other than the packaged digits and mnist5k need their official files below `root` (by default the environment
    variable SMOOTHCERT_DATA, else ./data). `shape`, that of one input, tells one input of an .npy array from several.

    Guarantees: either a `Dataset` that keeps its promises, or one InputError that names the file or argument and says
    what to do. Nothing is downloaded, and no code in a file is run.
    """
    if split not in SPLITS:
        raise InputError(f"split must be 'train' or 'test', got {split!r}")
    how = options or ReadOptions()
    data = _read(os.fspath(source), split, root, how, shape).prepared(how.preprocessing)
    return data if how.class_names is None else with_class_names(data, how.class_names, said_by="--class-names")


def _read(given: str, split: str, root: Path | None, how: ReadOptions, shape: Sequence[int] | None) -> Dataset:
    path = Path(os.path.expanduser(given))
    kind = path.suffix.lower()
    if how.label_column is not None and (given in READERS or kind not in TABLES):
        raise InputError(f"--label-column goes with a table (.csv, .parquet), and the data are {given}; leave it out")
    if given in READERS:
        return READERS[given](split, data_root(root))
    # os.path answers False where pathlib may raise (names too long, no permission).
    if given and os.path.isdir(path):
        return read_folder(path, split)
    if not os.path.isfile(path):
        raise InputError(_unknown(given))
    if kind == ".npz":
        return read_npz(path, split)
    if kind in TABLES:
        return read_table(path, split, how.label_column)
    if kind == ".npy" or kind in SUFFIXES:
        return read_unlabelled([path], shape, how.preprocessing)
    raise InputError(
        "source must be a name, an .npz file, a folder of images, a table (.csv, .parquet), an image or an .npy array, "
        f"got the file {given!r}: convert it"
    )


def data_root(root: Path | None = None) -> Path:
    """Where files of named data sets lie: `root`, else $SMOOTHCERT_DATA, else ./data."""
    return Path(os.path.expanduser(root or os.environ.get("SMOOTHCERT_DATA") or "data"))


def _unknown(given: str) -> str:
    known, close = ", ".join(names()), READERS.closest(given)
    hint = f"did you mean {close[0]}?" if close else "choose a name, or check the path"
    return f"source {given!r} is neither a data set ({known}) nor an existing file or image folder: {hint}"


import_all(__name__, __path__)
