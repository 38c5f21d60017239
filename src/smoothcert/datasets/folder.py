"""Your own images as files: in one folder per class, or all in one folder, and then nobody knows their labels."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.core.text import visible
from smoothcert.datasets.dataset import SPLITS, Dataset
from smoothcert.datasets.files import reading
from smoothcert.datasets.image_files import ImageFiles, common_mode, is_image_name
from smoothcert.datasets.images import SUFFIXES


@dataclass(frozen=True)
class Listed:
    """The images of one folder, sorted by name."""

    path: Path
    names: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes


def read_folder(root: Path, split: str) -> Dataset:
    """List root/split/class/image, or root/class/image, which then stands for the split that is asked for.

    Classes are numbered by name, images sorted by name within their class (the order in which the papers' ImageNet logs
    count). Class numbers and grey or colour are settled over *both* splits: all are RGB unless every one is grey. Files
    with other endings are passed over. Images are read when they are asked for, and must then have one size, or be
    brought to one (`Dataset.prepared`). A folder with images and no folders in it is unlabelled.
    """
    tops = _tops(root, split)
    if set(tops.values()) == {root} and not subfolders(root) and (images := listed(root)).names:
        return unlabelled_folder(images)
    return classes_of(root, split, {name: _classes(top) for name, top in tops.items()}, visible(root.resolve().name))


def classes_of(root: Path, split: str, splits: Mapping[str, Mapping[str, Listed]], name: str) -> Dataset:
    """The data set of a split, from the folder of each class of each split, by the name of the class."""
    classes = sorted({called for split_ in splits.values() for called in split_})
    if len(classes) < 2:
        raise InputError(
            f"the image folder {root} has images of {len(classes)} classes: put the images of each of at least two "
            f"classes into a folder of its own, {root}/CLASS or {root}/{split}/CLASS ({', '.join(SUFFIXES)}); "
            "images without labels go into one folder without any other"
        )
    number = {called: label for label, called in enumerate(classes)}
    every = (one.path / file for part in splits.values() for one in part.values() for file in one.names)
    here = splits[split]
    below = {called: os.path.relpath(one.path, root) for called, one in here.items()}
    files = ImageFiles(
        root,
        tuple(f"{below[called]}/{file}" for called, one in here.items() for file in one.names),
        tuple(size for one in here.values() for size in one.sizes),
        common_mode(every),
    )
    labels = np.repeat([number[called] for called in here], [len(one.names) for one in here.values()])
    names = tuple(map(visible, classes))
    return Dataset(name or "folder", split, files, labels.astype(np.int64), len(classes), (0, 1), names)


def unlabelled_folder(images: Listed, *, split: str = "test") -> Dataset:
    """Images whose labels nobody knows."""
    files = ImageFiles(
        images.path, images.names, images.sizes, common_mode(images.path / name for name in images.names)
    )
    labels = np.full(len(files), UNKNOWN, dtype=np.int64)
    return Dataset(visible(images.path.resolve().name) or "folder", split, files, labels, 0, (0, 1), ())


def listed(folder: Path, *, what: str = "a folder of images") -> Listed:
    """The images that lie in a folder itself."""
    with (
        reading(folder, kind=what, remedy=f"give a folder with images ({', '.join(SUFFIXES)})"),
        os.scandir(folder) as entries,
    ):
        found = sorted((entry.name, entry.stat().st_size) for entry in entries if is_image_name(entry.name))
    return Listed(folder, tuple(name for name, _ in found), tuple(size for _, size in found))


def subfolders(folder: Path) -> list[Path]:
    """The folders in a folder, by name, without hidden ones."""
    with reading(folder, kind="a folder of images", remedy="give a folder that may be listed"):
        return sorted(
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__MACOSX"))
        )


def _tops(root: Path, split: str) -> dict[str, Path]:
    """The folders of classes by split; a folder named train or test that holds no folders is a class."""
    splits = {path.name: path for path in subfolders(root) if path.name in SPLITS and subfolders(path)}
    if splits and split not in splits:
        raise InputError(f"the image folder {root} has no split {split!r}: add {root}/{split} or ask for another split")
    return splits or {split: root}


def _classes(top: Path) -> dict[str, Listed]:
    return dict(_with_images(top))


def _with_images(top: Path) -> Iterator[tuple[str, Listed]]:
    for folder in subfolders(top):
        images = listed(folder, what="a class of images")
        if not images.names:
            raise InputError(
                f"{folder} cannot be read as a class of images (it holds no images): put images into it "
                f"({', '.join(SUFFIXES)}) or remove it"
            )
        yield folder.name, images
