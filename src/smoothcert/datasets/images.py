"""Image files: the one way in which one is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from smoothcert.core.files import reading_file
from smoothcert.datasets.preprocessing import Preprocessing

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".pgm", ".ppm")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "PPM")
"""All that Pillow may try, whatever the file is called: its reader of EPS would start Ghostscript."""
GREY = ("1", "L", "LA")
COLOUR = ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
MOST_PIXELS = 2**26  # a few kilobytes of PNG can inflate to gigabytes of pixels


@contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """The header of an 8-bit image, before any pixel is inflated; anything else raises some exception, or Pillow's own.

    Only regular files of the formats above, with at most `MOST_PIXELS` pixels.
    """
    with reading_file(path) as file, Image.open(file, formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"it has {image.width}x{image.height} pixels, and at most {MOST_PIXELS} are read")
        if image.mode not in GREY + COLOUR:
            raise ValueError(f"its mode is {image.mode}, not 8-bit grey or colour")
        yield image


def is_grey(image: Image.Image) -> bool:
    """Whether the header says so."""
    return image.mode in GREY


def read_pixels(path: Path, mode: str, preparing: Preprocessing) -> npt.NDArray[Any]:
    """The prepared pixels as uint8 (1, H, W) for mode L, (3, H, W) for RGB; transparent ones are a ValueError."""
    with open_image(path) as image:
        image.load()
        if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
            alpha = np.asarray(image.convert("RGBA"))[:, :, 3]
            if alpha.min() < 255:
                raise ValueError("it has transparent pixels, whose colour is not defined")
        pixels = np.asarray(preparing.apply(image.convert(mode)))  # (H, W) or (H, W, 3)
    return pixels[np.newaxis] if mode == "L" else pixels.transpose(2, 0, 1)
