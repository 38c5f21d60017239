"""Your own images as files in one folder per class."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError
from smoothcert.core.text import visible
from smoothcert.datasets.dataset import SPLITS, Dataset
from smoothcert.datasets.files import reading
from smoothcert.datasets.images import GREY, SUFFIXES, open_image, read_pixels

REMEDY = "repair or convert it, or remove it from the folder"


def read_folder(root: Path, split: str) -> Dataset:
    """Read root/split/class/image, or root/class/image, which then stands for the split that is asked for.

    Classes are numbered by name, images sorted by name within their class (the order in which the papers' ImageNet logs
    count). Class numbers, image size and grey or colour are settled over *both* splits: all images have one size, and
    all are RGB unless every one is grey. Files with other endings are passed over.
    """
    tops = _tops(root, split)
    files = {name: list(_images(top)) for name, top in tops.items()}
    classes = sorted({path.parent.name for paths in files.values() for path in paths})
    if len(classes) < 2:
        raise InputError(
            f"the image folder {root} has images of {len(classes)} classes: put the images of each of at least two "
            f"classes into a folder of its own, {root}/CLASS or {root}/{split}/CLASS ({', '.join(SUFFIXES)})"
        )
    mode = _common_mode(path for paths in files.values() for path in paths)
    images = np.stack([_pixels(path, mode) for path in files[split]])  # (N, C, H, W)
    labels = np.array([classes.index(path.parent.name) for path in files[split]], dtype=np.int64)
    name = visible(root.resolve().name) or "folder"
    return Dataset(name, split, images, labels, len(classes), (0, 1), tuple(map(visible, classes)))


def _folders(folder: Path) -> list[Path]:
    with reading(folder, kind="a folder of images", remedy="give a folder that may be listed"):
        return sorted(
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__MACOSX"))
        )


def _tops(root: Path, split: str) -> dict[str, Path]:
    """The folders of classes by split; a folder named train or test that holds no folders is a class."""
    splits = {path.name: path for path in _folders(root) if path.name in SPLITS and _folders(path)}
    if splits and split not in splits:
        raise InputError(f"the image folder {root} has no split {split!r}: add {root}/{split} or ask for another split")
    return splits or {split: root}


def _images(top: Path) -> Iterable[Path]:
    for folder in _folders(top):
        with reading(
            folder, kind="a class of images", remedy=f"put images into it ({', '.join(SUFFIXES)}) or remove it"
        ):
            paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.name[0] != ".")
            if not paths:
                raise ValueError("it holds no images")
        yield from paths


def _common_mode(paths: Iterable[Path]) -> str:
    """Return L where all images are grey, else RGB, from the headers alone; refuse the first that differs in size."""
    mode, size = "L", None
    for path in paths:
        with reading(path, kind="an 8-bit image", remedy=REMEDY), open_image(path) as image:
            kind, own = image.mode, image.size
        size = size or own
        if own != size:
            raise InputError(f"{path} is {own[0]}x{own[1]} pixels where the others are {size[0]}x{size[1]}: resize it")
        mode = mode if kind in GREY else "RGB"
    return mode


def _pixels(path: Path, mode: str) -> npt.NDArray[Any]:
    with reading(path, kind="an 8-bit image", remedy=REMEDY):
        return read_pixels(path, mode)
