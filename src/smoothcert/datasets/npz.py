"""Your own data as numpy arrays in one .npz file."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.files import reading_file
from smoothcert.core.text import visible
from smoothcert.datasets.dataset import SPLITS, Dataset
from smoothcert.datasets.files import reading
from smoothcert.datasets.npy import Archive

MOST_CLASSES = 100_000
REMEDY = (
    "write it with numpy.savez(path, x_train=, y_train=, x_test=, y_test=) or (x=, y=), where x is images "
    "(uint8 or float: (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels) or a table (float: (N, d)) "
    "and y is class numbers 0, 1, ... (integers: (N,))"
)


def read_npz(path: Path, split: str) -> Dataset:
    """Read x_{split} and y_{split}, or x and y, which then stand for the split that is asked for.

    Images come out as uint8 (N, C, H, W), tables as float32. Float images whose values are all exactly k/255 in their
    own precision are 8-bit images; others stay float32, and are certified as they are (`--grid off`) or through their
    nearest grid point, with the distance subtracted (`--grid 255`).
    The number of classes is one more than the largest label of *both* splits. Nothing in the file is ever unpickled.
    """
    with reading(path, kind="a data set", remedy=REMEDY):
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a complete .npz archive")
        with reading_file(path) as stream, Archive(stream) as archive:
            suffix = _suffix(archive.files, split)
            keys = [f"y_{name}" for name in SPLITS if f"y_{name}" in archive.files] if suffix else ["y"]
            labels = {key: as_labels(archive[key], key) for key in keys}
            inputs = as_inputs(archive[f"x{suffix}"], f"x{suffix}")
        num_classes = 1 + max(int(own.max()) for own in labels.values())
        names = tuple(str(label) for label in range(num_classes))
        input_range = (0.0, 1.0) if inputs.dtype == np.uint8 else None
        return Dataset(visible(path.stem), split, inputs, labels[f"y{suffix}"], num_classes, input_range, names)


def _suffix(keys: list[str], split: str) -> str:
    for suffix in (f"_{split}", ""):
        if f"x{suffix}" in keys and f"y{suffix}" in keys:
            return suffix
    raise ValueError(f"it has neither x_{split} and y_{split} nor x and y, but {', '.join(sorted(keys)) or 'nothing'}")


def as_labels(labels: npt.NDArray[Any], key: str) -> npt.NDArray[np.int64]:
    """Class numbers (N,); anything else is a ValueError that names `key`."""
    if labels.dtype.kind not in "iu" or labels.size == 0 or labels.shape not in ((labels.size,), (labels.size, 1)):
        raise ValueError(f"{key} should be integers of shape (N,), it is {labels.dtype} {labels.shape}")
    if labels.min() < 0 or labels.max() >= MOST_CLASSES:
        raise ValueError(f"{key} should count the classes from 0, it has {labels.min()} to {labels.max()}")
    return labels.astype(np.int64).ravel()


def as_inputs(x: npt.NDArray[Any], key: str) -> npt.NDArray[Any]:
    """Images, uint8 or float32 (N, C, H, W), or a table, float32 (N, d); else a ValueError that names `key`."""
    if x.dtype.kind == "f" and x.ndim == 2:
        return x.astype(np.float32)
    if x.dtype.kind == "f" and x.ndim in (3, 4):
        levels = exact_levels(x)
        x = x.astype(np.float32) if levels is None else levels
    elif x.dtype != np.uint8 or x.ndim not in (3, 4):
        raise ValueError(f"{key} is {x.dtype} {x.shape}, neither images (uint8 or float) nor a float table")
    return x[:, np.newaxis] if x.ndim == 3 else channels_first(x, key)


def exact_levels(x: npt.NDArray[Any]) -> npt.NDArray[np.uint8] | None:
    """The levels k of floats that are all exactly k/255 in their own precision; None where one is not."""
    if np.isfinite(x).all() and x.size and x.min() >= 0 and x.max() <= 1:
        levels: npt.NDArray[np.uint8] = np.rint(x * 255).astype(np.uint8)
        if np.array_equal(levels.astype(x.dtype) / x.dtype.type(255), x):
            return levels
    return None


def channels_first(x: npt.NDArray[Any], key: str) -> npt.NDArray[Any]:
    """Images as (N, C, H, W), whichever axis the channels are; refused where that cannot be told."""
    first, last = x.shape[1] in (1, 3), x.shape[3] in (1, 3)
    if first and last:
        raise ValueError(f"{key} {x.shape} has two axes that may be the channels: pad the images to more than 3 pixels")
    if not first and not last:
        raise ValueError(f"{key} {x.shape} has no axis of 1 or 3 channels in second or last place")
    return x if first else x.transpose(0, 3, 1, 2)
