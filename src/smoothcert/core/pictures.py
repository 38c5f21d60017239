"""An image as text that a browser shows: small, and complete in itself."""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt

LONGEST_SIDE = 128  # of a picture on a page: a thousand photographs would otherwise be a hundred megabytes


def data_uri(image: npt.NDArray[np.uint8], longest: int = LONGEST_SIDE) -> str:
    """The PNG data URI of an image uint8 (C, H, W), grey or RGB; one that is small enough is kept pixel by pixel."""
    from PIL import Image  # noqa: PLC0415  (only what shows pictures needs it)

    pixels = image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)  # (H, W) or (H, W, 3)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.thumbnail((longest, longest))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
