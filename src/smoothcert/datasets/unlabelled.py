"""Inputs without labels, to be asked about: images, folders of images, .npy arrays, in any number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.datasets.dataset import Dataset
from smoothcert.datasets.files import reading
from smoothcert.datasets.folder import listed
from smoothcert.datasets.image_files import ImageFiles, common_mode, other_mode
from smoothcert.datasets.images import SUFFIXES, is_grey, open_image
from smoothcert.datasets.lazy import Joined, LazyInputs, MappedArray
from smoothcert.datasets.npy import map_npy
from smoothcert.datasets.npz import channels_first
from smoothcert.datasets.preprocessing import Preprocessing

KIND = "an image, a folder of images or an .npy array"
REMEDY = f"give an 8-bit image ({', '.join(SUFFIXES)}), a folder of such images, or an .npy array"
MODES = {1: "L", 3: "RGB"}

Shape = tuple[int, ...]


def read_unlabelled(
    paths: Sequence[str | os.PathLike[str]], shape: Sequence[int] | None = None, how: Preprocessing | None = None
) -> Dataset:
    """The inputs of image files, folders of images and .npy arrays, in the order given; labels are unknown.

    With `shape`, that of one input of the model, what does not fit is refused from its header, before a pixel is
    inflated or a number read: another size, and colour for grey or grey for colour, which nobody converts here. Without
    it the first input decides. 8-bit inputs are uint8 / 255, in [0, 1]. No code in a file is run and no other program
    is started.
    """
    if not paths:
        raise InputError("give at least one input: an image, a folder of images or an .npy array")
    wanted = None if shape is None else tuple(shape)
    parts: list[LazyInputs] = []
    for path in map(Path, paths):
        parts.append(_opened(path, wanted, how or Preprocessing()))
        if parts[-1].shape[1:] != parts[0].shape[1:]:
            raise InputError(
                f"{path} holds inputs of shape {parts[-1].shape[1:]} where {paths[0]} holds {parts[0].shape[1:]}; "
                "give --resize and --crop for images, or ask about them apart"
            )
    inputs = parts[0] if len(parts) == 1 else Joined(parts)
    labels = np.full(len(inputs), UNKNOWN, dtype=np.int64)
    return Dataset("inputs", "test", inputs, labels, 0, (0, 1) if inputs.dtype == np.uint8 else None, ())


def _opened(path: Path, wanted: Shape | None, how: Preprocessing) -> LazyInputs:
    if path.is_dir():
        return _folder(path, wanted, how)
    if path.suffix == ".npy":
        with reading(path, kind=KIND, remedy=REMEDY):
            array = map_npy(path)
        return MappedArray(_batch(array, path, wanted), str(path))
    with reading(path, kind=KIND, remedy=REMEDY):
        with open_image(path) as image:
            size, grey = image.size, is_grey(image)
        file_bytes = path.stat().st_size
    mode = _mode(wanted, path) or ("L" if grey else "RGB")
    if grey and mode == "RGB":
        raise other_mode(path, "a grey", "colour")
    images = ImageFiles(path.parent, (path.name,), (file_bytes,), mode, True, how, str(path.parent))
    width, height = how.size_of(size)
    if wanted is not None and (height, width) != wanted[1:]:
        raise InputError(
            f"{path} must hold inputs of shape {wanted}, but is an image of {width}x{height} pixels"
            f"{' after --resize and --crop' if how else ''}; give --resize {wanted[2]}x{wanted[1]}, or resize it"
        )
    if mode == "L" and not grey:
        images.read(0)  # is refused now, if it has a colour
    return images


def _folder(path: Path, wanted: Shape | None, how: Preprocessing) -> LazyInputs:
    """The images that lie in the folder itself."""
    images = listed(path)
    if not images.names:
        raise InputError(
            f"{path} holds no images ({', '.join(SUFFIXES)}); give a folder of images, or folders of classes as --data"
        )
    mode = _mode(wanted, path) or common_mode(iter([path / images.names[0]]))
    return ImageFiles(path, images.names, images.sizes, mode, True, how, str(path))


def _mode(wanted: Shape | None, path: Path) -> str | None:
    if wanted is None:
        return None
    if len(wanted) != 3 or wanted[0] not in MODES:
        raise InputError(f"{path} is an image, but the model takes inputs of shape {wanted}; give an .npy array")
    return MODES[wanted[0]]


def _batch(array: npt.NDArray[Any], path: Path, wanted: Shape | None) -> npt.NDArray[Any]:
    """An array as a batch (N, ...) of inputs."""
    eight_bit = array.dtype == np.uint8
    if not eight_bit and array.dtype.kind != "f":
        raise InputError(f"{path} must hold inputs, uint8 or float, got {array.dtype} {array.shape}; convert it")
    if wanted is not None:
        batch = array[None] if array.ndim == len(wanted) else array
        if batch.shape[1:] != wanted or not len(batch):
            raise InputError(
                f"{path} must hold inputs of shape {wanted}, uint8 or float, got {array.dtype} {array.shape}"
            )
        return batch
    if array.ndim < 2 or not array.size or array.ndim == 3 or (eight_bit and array.ndim != 4):
        raise InputError(
            f"{path} must hold a batch of inputs, (N, C, H, W) for images or (N, d) for rows of numbers, got "
            f"{array.dtype} {array.shape}; save x[None] for one input"
        )
    try:
        return channels_first(array, path.name) if eight_bit else array
    except ValueError as error:
        raise InputError(f"{path} cannot be read as images ({error}): save them as (N, C, H, W)") from None
