"""What is done to the pixels of an image file before anything else: resized, then cropped at the centre.

The result is an 8-bit image again, the same on every machine with the same Pillow: the filter sums in whole numbers.
A certificate is about these pixels, and not about those in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from smoothcert.core.errors import InputError

LARGEST_SIDE = 2**13
FILTER = "bilinear"

Size = tuple[int, int]  # width, height


@dataclass(frozen=True)
class Preprocessing:
    """How images are resized and cropped, as the command line has it.

    Args:
        resize: "256": the shorter side becomes 256 pixels, the longer one in proportion (rounded down), as the papers
            do with ImageNet. "64x48": 64 pixels wide and 48 high, whatever the proportions were. Bilinear, with the
            filter as wide as what is scaled down (Pillow's).
        crop: "224" or "64x48": what is left at the centre, rounded up and to the left.
    """

    resize: str | None = None
    crop: str | None = None

    def __post_init__(self) -> None:
        for name in ("resize", "crop"):
            text = getattr(self, name)
            if text is not None:
                _sides(text, name)
                object.__setattr__(self, name, str(text).strip().lower())

    def __bool__(self) -> bool:
        return self.resize is not None or self.crop is not None

    @property
    def size(self) -> Size | None:
        """Width and height of what comes out, where they are the same for every image."""
        if self.crop is not None:
            sides = _sides(self.crop, "crop")
        elif self.resize is not None and "x" in self.resize:
            sides = _sides(self.resize, "resize")
        else:
            return None
        return sides[0], sides[-1]

    def size_of(self, size: Size) -> Size:
        """Width and height of what comes out of an image of that width and height."""
        return self.size or self._resized(size)

    def apply(self, image: Image.Image) -> Image.Image:
        """The image, 8-bit grey or RGB, as it is certified; a crop that is larger than the image is a ValueError."""
        size = self._resized(image.size)
        if size != image.size:
            image = image.resize(size, Image.Resampling.BILINEAR)
        if self.crop is None:
            return image
        sides = _sides(self.crop, "crop")
        width, height = sides[0], sides[-1]
        if width > image.width or height > image.height:
            raise ValueError(
                f"it has {image.width}x{image.height} pixels, which cannot be cropped to {width}x{height}; "
                "give --resize first, or a smaller --crop"
            )
        left, top = (image.width - width) // 2, (image.height - height) // 2
        return image.crop((left, top, left + width, top + height))

    def to_json(self) -> dict[str, str]:
        """What is done, in the words of the command line; empty where nothing is."""
        said = {"resize": self.resize, "crop": self.crop}
        given = {name: text for name, text in said.items() if text is not None}
        return given | ({"filter": FILTER} if self.resize is not None else {})

    @classmethod
    def from_json(cls, fields: Mapping[str, Any] | None) -> Preprocessing:
        """The inverse of `to_json`; another filter, or what this version does not know, is refused."""
        given = dict(fields or {})
        if given.pop("filter", FILTER) != FILTER or set(given) - {"resize", "crop"}:
            raise InputError(f"this version cannot prepare images by {dict(fields or {})!r}; take the one that did")
        return cls(**given)

    def _resized(self, size: Size) -> Size:
        if self.resize is None:
            return size
        sides = _sides(self.resize, "resize")
        if len(sides) == 2:
            return sides[0], sides[1]
        width, height = size
        short = sides[0]
        return (short, max(1, short * height // width)) if width <= height else (max(1, short * width // height), short)


def _sides(text: str, name: str) -> list[int]:
    """One number, or width and height."""
    found = re.fullmatch(r"\s*([0-9]{1,5})(?:\s*[xX]\s*([0-9]{1,5}))?\s*", str(text))
    sides = [int(side) for side in found.groups() if side is not None] if found else []
    if not sides or not all(1 <= side <= LARGEST_SIDE for side in sides):
        raise InputError(
            f"--{name} must be pixels such as 224, or width and height such as 320x240, at most {LARGEST_SIDE} each, "
            f"got {text!r}"
        )
    return sides
