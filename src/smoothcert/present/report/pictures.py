"""Inputs as pictures inside a page: PNG data URIs, each different picture once."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError
from smoothcert.core.pictures import data_uri


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
            self.uris.append(data_uri(image))
        return self._known[key]
