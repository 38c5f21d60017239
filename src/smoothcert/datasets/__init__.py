"""Data sets: standard files, packaged images and your own arrays or folders, all read into one checked `Dataset`.

A new data set by name is one file with a reader under `@register("name")`: every module of this package is imported.
"""

import os
from pathlib import Path

from smoothcert.core.errors import InputError
from smoothcert.core.registry import import_all
from smoothcert.datasets.arrays import from_arrays
from smoothcert.datasets.dataset import SPLITS, Dataset, Subset
from smoothcert.datasets.folder import read_folder
from smoothcert.datasets.inputs import read_inputs
from smoothcert.datasets.npz import read_npz
from smoothcert.datasets.registry import READERS, Reader, names, register

__all__ = ["SPLITS", "Dataset", "Reader", "Subset", "from_arrays", "load", "names", "read_inputs", "register"]


def load(source: str | os.PathLike[str], split: str = "test", *, root: Path | None = None) -> Dataset:
    """Return one split of a data set, the same for the same files on every machine.

    `source` is one of `names()`, or a path to an .npz file or a folder of images (a name goes before a path: write
    ./mnist for a folder called mnist). Names other than the packaged digits and mnist5k need their official files below
    `root` (by default the environment variable SMOOTHCERT_DATA, else ./data).

    Guarantees: either a `Dataset` that keeps its promises, or one InputError that names the file or argument and says
    what to do. Nothing is downloaded, and no code in a file is run.
    """
    if split not in SPLITS:
        raise InputError(f"split must be 'train' or 'test', got {split!r}")
    given = os.fspath(source)
    if given in READERS:
        return READERS[given](split, data_root(root))
    path = Path(os.path.expanduser(given))
    # os.path answers False where pathlib may raise (names too long, no permission).
    if given and os.path.isdir(path):
        return read_folder(path, split)
    if os.path.isfile(path):
        if path.suffix != ".npz":
            raise InputError(
                f"source must be a name, an .npz file or a folder of images, got the file {given!r}: convert it"
            )
        return read_npz(path, split)
    raise InputError(_unknown(given))


def data_root(root: Path | None = None) -> Path:
    """Where files of named data sets lie: `root`, else $SMOOTHCERT_DATA, else ./data."""
    return Path(os.path.expanduser(root or os.environ.get("SMOOTHCERT_DATA") or "data"))


def _unknown(given: str) -> str:
    known, close = ", ".join(names()), READERS.closest(given)
    hint = f"did you mean {close[0]}?" if close else "choose a name, or check the path"
    return f"source {given!r} is neither a data set ({known}) nor an existing .npz file or image folder: {hint}"


import_all(__name__, __path__)
