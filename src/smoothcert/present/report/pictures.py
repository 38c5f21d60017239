"""Inputs as pictures inside a page: PNG data URIs, each different picture once."""

from __future__ import annotations

import base64
import hashlib
import io

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError

LONGEST_SIDE = 128  # of a picture on the page: a thousand photographs would otherwise be a hundred megabytes


class Pictures:
    """The pool of pictures of a page: runs on the same inputs share them."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._known: dict[bytes, int] = {}

    def add(self, image: npt.NDArray[np.uint8]) -> int:
        """The number of a picture uint8 (C, H, W), grey or RGB; small ones are kept pixel by pixel."""
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3) or image.size == 0:
            raise InputError(
                f"images must be uint8 (C, H, W) with 1 or 3 channels, got {image.dtype} {image.shape}: convert them"
            )
        key = hashlib.sha256(repr(image.shape).encode() + image.tobytes()).digest()
        if key not in self._known:
            self._known[key] = len(self.uris)
            self.uris.append(_uri(image))
        return self._known[key]


def _uri(image: npt.NDArray[np.uint8]) -> str:
    from PIL import Image  # noqa: PLC0415  (only reports with pictures need it)

    pixels = image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)  # (H, W) or (H, W, 3)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
