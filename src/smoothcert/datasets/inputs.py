"""Inputs without labels, to be asked about: an image, or an .npy array of one or more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError
from smoothcert.datasets.files import reading
from smoothcert.datasets.images import SUFFIXES, open_image, read_pixels
from smoothcert.datasets.npy import read_npy

REMEDY = f"give an 8-bit image ({', '.join(SUFFIXES)}) or an .npy array"


def read_inputs(path: Path, shape: Sequence[int]) -> tuple[npt.NDArray[np.float32], bool]:
    """The inputs of a file as float32 (B, *shape), and whether they were 8-bit: then they are uint8 / 255, in [0, 1].

    What a file claims to hold is compared with what is wanted before it is inflated or room is made for it. Whatever
    else it is, one InputError says so; no code in it is run and no other program is started.
    """
    wanted = tuple(shape)
    with reading(path, kind="an image or an .npy array", remedy=REMEDY):
        size = None if path.suffix == ".npy" else _image_size(path)
    if size is not None and (wanted[:-2] not in ((1,), (3,)) or size != wanted[1:]):
        pixels = "x".join(map(str, size))
        raise InputError(f"{path} must hold inputs of shape {wanted}, but is an image of {pixels} pixels; resize it")
    with reading(path, kind="an image or an .npy array", remedy=REMEDY):
        array = read_npy(path) if size is None else read_pixels(path, "L" if wanted[0] == 1 else "RGB")
    eight_bit = array.dtype == np.uint8
    batch = array[None] if array.ndim == len(wanted) else array
    if batch.shape[1:] != wanted or not (eight_bit or batch.dtype.kind == "f") or not len(batch):
        raise InputError(f"{path} must hold inputs of shape {wanted}, uint8 or float, got {array.dtype} {array.shape}")
    if eight_bit:
        batch = batch.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(batch, dtype=np.float32), eight_bit


def _image_size(path: Path) -> tuple[int, int]:
    """(H, W), from the header alone."""
    with open_image(path) as image:
        return image.height, image.width
