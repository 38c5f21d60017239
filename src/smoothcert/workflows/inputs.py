"""Inputs from files: images and .npy arrays, for `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.datasets.folder import FORMATS

EIGHT_BIT_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


def read_inputs(path: Path, shape: tuple[int, ...]) -> tuple[Tensor, bool]:
    """Inputs of an image or an .npy file, (B, *shape), as float32 in [0, 1], and whether they were 8-bit.

    Images are read by the readers of `datasets` alone: others would start programs, or are not of 8 bits.
    """
    try:
        array = np.load(path, allow_pickle=False) if path.suffix == ".npy" else _pixels(path, shape)
    except (OSError, ValueError, EOFError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"--input {path} cannot be read as an image or an .npy array ({error})") from None
    eight_bit = array.dtype == np.uint8
    if eight_bit:
        array = array.astype(np.float32) / np.float32(255)
    batch = array[None] if array.ndim == len(shape) else array
    if batch.ndim != len(shape) + 1 or batch.shape[1:] != shape or batch.dtype.kind != "f" or not len(batch):
        raise InputError(
            f"--input {path} must hold inputs of shape {shape}, uint8 or float, got {array.dtype} {array.shape}"
        )
    return torch.from_numpy(np.ascontiguousarray(batch, dtype=np.float32)), eight_bit


def _pixels(path: Path, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    grey = shape[0] == 1
    with Image.open(path, formats=FORMATS) as image:
        if image.mode not in EIGHT_BIT_MODES:
            raise ValueError(f"mode {image.mode} is not of 8 bits; convert it, or give an .npy array")
        array = np.asarray(image.convert("L" if grey else "RGB"))
    return array[None] if grey else array.transpose(2, 0, 1)  # (C, H, W)
