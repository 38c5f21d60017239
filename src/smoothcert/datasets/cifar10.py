"""CIFAR-10 (Krizhevsky 2009) from its official batches, the python or the binary version."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.files import read_file
from smoothcert.datasets.dataset import Dataset, check_labels
from smoothcert.datasets.files import FRESH_COPY, locate, reading
from smoothcert.datasets.inert_pickle import as_array, load_plain
from smoothcert.datasets.registry import register

FOLDERS = ("cifar10", "cifar10/cifar-10-batches-py", "cifar10/cifar-10-batches-bin",
           "cifar-10-batches-py", "cifar-10-batches-bin", "")  # fmt: skip
BATCHES = {"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)}
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32
IMAGES_PER_BINARY_BATCH = 10_000
MOST_BYTES = 2**28  # of a batch: eight times the official ones


@register("cifar10")
def cifar10(split: str, root: Path) -> Dataset:
    """Read a split in the official order (train: batches 1 to 5) from root/cifar10, root or the tarball's own folder.

    The python batches are pickles; they are read without running anything that stands in them.
    """
    paths = locate("cifar10", root, folders=FOLDERS, wanted=[(name, f"{name}.bin") for name in BATCHES[split]])
    pixels, labels = [], []
    for path in paths:
        with reading(path, kind="a CIFAR-10 batch", remedy=FRESH_COPY):
            batch_pixels, batch_labels = _binary(path) if path.suffix == ".bin" else _python(path)
            if len(batch_pixels) == 0:
                raise ValueError("it is empty")
            check_labels(batch_labels, size=len(batch_pixels), num_classes=10)
        pixels.append(batch_pixels)
        labels.append(batch_labels)
    images = np.concatenate(pixels).reshape(-1, 3, 32, 32)
    return Dataset("cifar10", split, images, np.concatenate(labels), 10, (0, 1), CLASSES)


def _python(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    batch = load_plain(read_file(path, most=MOST_BYTES))
    if not isinstance(batch, dict):
        raise ValueError("it is not a dictionary")
    fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
    if "data" not in fields or "labels" not in fields:
        raise ValueError("it has no 'data' and 'labels'")
    pixels, labels = as_array(fields["data"]), as_array(fields["labels"])
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise ValueError(f"its data should be uint8 (N, {PIXELS}), they are {pixels.dtype} {pixels.shape}")
    return pixels, labels.astype(np.int64)


def _binary(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Records of one label byte and the pixels; the file carries no count, so only the official length is accepted."""
    raw = np.frombuffer(read_file(path, most=MOST_BYTES), np.uint8)
    promised = IMAGES_PER_BINARY_BATCH * (1 + PIXELS)
    if raw.size != promised:
        raise ValueError(f"it should have {promised} bytes, it has {raw.size}")
    records = raw.reshape(-1, 1 + PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)
