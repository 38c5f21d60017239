"""CIFAR-100 (Krizhevsky 2009), fine labels, from its official files, the python or the binary version."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.files import read_file
from smoothcert.datasets.dataset import Dataset, check_labels
from smoothcert.datasets.files import FRESH_COPY, locate, reading
from smoothcert.datasets.inert_pickle import as_array, load_plain
from smoothcert.datasets.registry import register

FOLDERS = ("cifar100", "cifar100/cifar-100-python", "cifar100/cifar-100-binary",
           "cifar-100-python", "cifar-100-binary")  # fmt: skip
IMAGES = {"train": 50_000, "test": 10_000}
PIXELS = 3 * 32 * 32
MOST_BYTES = 2**29  # of a file: three times the larger official one


@register("cifar100")
def cifar100(split: str, root: Path) -> Dataset:
    """Read a split in the official order from root/cifar100 or the tarball's own folder, with the 100 fine classes.

    The python files are pickles; they are read without running anything that stands in them.
    """
    names = [(split, f"{split}.bin"), ("meta", "fine_label_names.txt")]
    path, meta = locate("cifar100", root, folders=FOLDERS, wanted=names)
    with reading(path, kind="CIFAR-100 images", remedy=FRESH_COPY):
        pixels, labels = _binary(path, split) if path.suffix == ".bin" else _python(path)
        if len(pixels) == 0:
            raise ValueError("it is empty")
        check_labels(labels, size=len(pixels), num_classes=100)
    with reading(meta, kind="the names of CIFAR-100's classes", remedy=FRESH_COPY):
        classes = _names(meta)
        if len(classes) != 100:
            raise ValueError(f"it has {len(classes)} names instead of 100")
    return Dataset("cifar100", split, pixels.reshape(-1, 3, 32, 32), labels, 100, (0, 1), classes)


def _python(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    fields = _fields(path)
    if "data" not in fields or "fine_labels" not in fields:
        raise ValueError("it has no 'data' and 'fine_labels'")
    pixels, labels = as_array(fields["data"]), as_array(fields["fine_labels"])
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise ValueError(f"its data should be uint8 (N, {PIXELS}), they are {pixels.dtype} {pixels.shape}")
    return pixels, labels.astype(np.int64)


def _binary(path: Path, split: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Records of coarse label, fine label and pixels; the file carries no count: only the official length will do."""
    raw = np.frombuffer(read_file(path, most=MOST_BYTES), np.uint8)
    promised = IMAGES[split] * (2 + PIXELS)
    if raw.size != promised:
        raise ValueError(f"it should have {promised} bytes, it has {raw.size}")
    records = raw.reshape(-1, 2 + PIXELS)
    return records[:, 2:], records[:, 1].astype(np.int64)


def _names(path: Path) -> tuple[str, ...]:
    if path.suffix == ".txt":
        return tuple(read_file(path, most=MOST_BYTES).decode("ascii").split())
    found = _fields(path).get("fine_label_names")
    if not isinstance(found, list):
        raise ValueError("it has no list 'fine_label_names'")
    return tuple(name.decode("ascii") if isinstance(name, bytes) else str(name) for name in found)


def _fields(path: Path) -> dict[str, Any]:
    content = load_plain(read_file(path, most=MOST_BYTES))
    if not isinstance(content, dict):
        raise ValueError("it is not a dictionary")
    return {key.decode() if isinstance(key, bytes) else str(key): value for key, value in content.items()}
