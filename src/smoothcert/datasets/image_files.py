"""Image files as inputs, each read when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.text import visible
from smoothcert.datasets.files import reading
from smoothcert.datasets.images import SUFFIXES, is_grey, open_image, read_pixels
from smoothcert.datasets.lazy import Array, LazyInputs
from smoothcert.datasets.preprocessing import Preprocessing

REMEDY = "repair or convert it, or remove it"


@dataclass(frozen=True, eq=False)
class ImageFiles(LazyInputs):
    """Images uint8 (N, C, H, W) of files, in the order of `names`, all grey or all RGB, prepared to one size.

    What identifies them are the names and sizes of the files and how they are prepared. No image is read for it, so
    that a few images of a folder of millions are certified at once; a run notes a digest of the pixels it plans.
    """

    root: Path
    names: Sequence[str] = field(repr=False)  # paths below the root
    sizes: Sequence[int] = field(repr=False)  # bytes of each file
    mode: str  # L or RGB
    strict: bool = False  # refuse grey images among colour ones, too, instead of showing them in RGB
    how: Preprocessing = field(default_factory=Preprocessing)
    shown_in: str = ""  # a folder that users see before the names, and that identifies nothing

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """(N, C, H, W); the size is that of the first image where preparing does not settle it."""
        size = self.how.size
        if size is None:
            with self._reading(0), open_image(self.root / self.names[0]) as image:
                size = self.how.size_of(image.size)
        return len(self.names), 1 if self.mode == "L" else 3, size[1], size[0]

    @property
    def preparing(self) -> Preprocessing:
        """How they are brought to one size."""
        return self.how

    def prepared(self, how: Preprocessing) -> ImageFiles:
        """The same files, prepared otherwise."""
        return replace(self, how=how)

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8."""
        return np.dtype(np.uint8)

    def read(self, index: int) -> Array:
        """The prepared pixels; another size, and a colour image among grey ones, are refused."""
        path = self.root / self.names[index]
        with self._reading(index), open_image(path) as image:
            grey = is_grey(image)
        if grey and self.mode == "RGB" and self.strict:
            raise other_mode(path, "a grey", "colour")
        with self._reading(index):
            pixels = read_pixels(path, self.mode if grey else "RGB", self.how)
        if self.mode == "L" and not grey:
            if not (pixels == pixels[:1]).all():
                raise other_mode(path, "a colour", "grey")
            pixels = pixels[:1]  # a format without grey: nothing is lost
        if pixels.shape != self.shape[1:]:
            (_, height, width), (_, _, *wanted) = pixels.shape, self.shape
            raise InputError(
                f"{path} is {width}x{height} pixels where the first is {wanted[1]}x{wanted[0]}: give --resize and "
                "--crop, which bring all to one size"
            )
        return pixels

    def name(self, index: int) -> str:
        """The path below the root, or as the user gave it."""
        return visible(os.path.join(self.shown_in, self.names[index]))

    def identity(self) -> Iterator[bytes]:
        """How they are prepared, and name and size of each file."""
        yield repr(("images", self.mode, sorted(self.how.to_json().items()))).encode()
        for name, size in zip(self.names, self.sizes, strict=True):
            yield f"{name!r} {size}\n".encode()

    def _reading(self, index: int) -> Any:
        return reading(self.root / self.names[index], kind="an 8-bit image", remedy=REMEDY)


def other_mode(path: Path, here: str, there: str) -> InputError:
    """The refusal of a colour image where grey ones are wanted, or the other way round."""
    return InputError(
        f"{path} is {here} image where {there} ones are wanted; convert it yourself, so that you see what is "
        "certified, or take another model"
    )


def common_mode(paths: Iterable[Path]) -> str:
    """L where all images are grey, else RGB, from headers alone: the first colour image settles it."""
    for path in paths:
        with reading(path, kind="an 8-bit image", remedy=REMEDY), open_image(path) as image:
            if not is_grey(image):
                return "RGB"
    return "L"


def is_image_name(name: str) -> bool:
    """Whether a file is called like an image, and not hidden."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")
