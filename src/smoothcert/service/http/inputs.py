"""Inputs as they come over the network, checked before anything is drawn: an image file, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.datasets.images import COLOUR, FORMATS, GREY
from smoothcert.engine.inputs import as_batch
from smoothcert.noise import Noise

MODES = {1: "L", 3: "RGB"}
IMAGES = "PNG, JPEG, BMP, WebP, PGM or PPM"


def read_image(body: bytes, shape: Sequence[int], most_pixels: int) -> Tensor:
    """The pixels of an image file as an input, (C, H, W) in [0, 1]; refused from its header where it does not fit."""
    channels, height, width = _image_shape(shape)
    try:
        with Image.open(BytesIO(body), formats=FORMATS) as image:
            if image.width * image.height > most_pixels:
                raise InputError(
                    f"the image has {image.width}x{image.height} pixels, and at most {most_pixels} are read; resize it"
                )
            if (image.width, image.height) != (width, height):
                raise InputError(
                    f"the image is {image.width}x{image.height} pixels, and the model takes {width}x{height}; resize it"
                )
            _refuse_other_colour(image, channels)
            image.load()
            pixels = np.asarray(image.convert(MODES[channels]))
    except InputError:
        raise
    except Exception as error:  # whatever Pillow raises for bytes that are no image, and a bomb among them
        raise InputError(
            f"the body is not an image that can be read ({type(error).__name__}); send a file, {IMAGES}, as it is: "
            "curl --data-binary @FILE"
        ) from None
    levels = pixels[np.newaxis] if channels == 1 else pixels.transpose(2, 0, 1)
    return torch.from_numpy(levels.astype(np.float32) / np.float32(255))


def _image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) != 3 or shape[0] not in MODES:
        raise InputError(f"the model takes inputs of shape {tuple(shape)}, which no image has; send a tensor")
    return shape[0], shape[1], shape[2]


def _refuse_other_colour(image: Image.Image, channels: int) -> None:
    if image.mode not in GREY + COLOUR:
        raise InputError(f"the image has the mode {image.mode}, not 8-bit grey or colour; convert it")
    if (image.mode in GREY) != (channels == 1):
        kinds = ("a colour", "grey") if channels == 1 else ("a grey", "colour")
        raise InputError(f"it is {kinds[0]} image, and the model takes {kinds[1]} ones; convert it, as you see fit")
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        alpha = np.asarray(image.convert("RGBA"))[:, :, 3]
        if alpha.min() < 255:
            raise InputError("the image has transparent pixels, whose colour is not defined; flatten it")


def read_tensor(
    numbers: npt.NDArray[Any], shape: Sequence[int], bounds: tuple[float, float] | None, noise: Noise
) -> Tensor:
    """Inputs (B, ...) as float32; 8-bit ones are divided by 255. Numbers beside the grid of the noise are refused."""
    if numbers.dtype == np.uint8:
        numbers = numbers.astype(np.float32) / np.float32(255)
    batch = as_batch(numbers, tuple(shape), bounds)
    beside = [row for row, x in enumerate(batch) if getattr(noise.at(x), "offset", 0.0) > 0]
    if beside:
        raise InputError(
            f"input {beside[0]} is no 8-bit image, and the noise of this server is drawn for such (levels k/255); "
            "send UINT8, or round it"
        )
    return batch
