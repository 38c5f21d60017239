"""MNIST (LeCun, Cortes, Burges 1998), the same in black and white, and Fashion-MNIST (Xiao, Rasul, Vollgraf 2017).

Each from its four official idx files, compressed or not.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from smoothcert.core.files import read_inflated
from smoothcert.datasets.dataset import Dataset, check_labels
from smoothcert.datasets.files import FRESH_COPY, locate, reading
from smoothcert.datasets.registry import register

FOLDERS = ("mnist", "", "MNIST/raw")
FASHION_FOLDERS = ("fashion-mnist", "FashionMNIST/raw", "fashion")
DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
PREFIX = {"train": "train", "test": "t10k"}
SIDE = 28
MOST_BYTES = 2**28  # of a file, unpacked: five times the largest official one
HALF = 128  # levels from here on are white: 127.5 is the middle of 0..255


@register("mnist")
def mnist(split: str, root: Path) -> Dataset:
    """Read a split in the official order from root/mnist or root: idx files, as they are or with .gz.

    Magic numbers, image size and promised lengths are checked, so a truncated or exchanged file is refused.
    """
    images, labels = _read("mnist", split, root, FOLDERS)
    return Dataset("mnist", split, images, labels, 10, (0, 1), DIGITS)


@register("mnist-binary")
def mnist_binary(split: str, root: Path) -> Dataset:
    """MNIST with every pixel black or white: 255 from half of the range on, else 0, as Lee et al. (2019) certify l0.

    A fixed threshold, and so a function of the image; the binarised MNIST of generative models is drawn at random, and
    has no labels.
    """
    images, labels = _read("mnist-binary", split, root, FOLDERS)
    white = np.where(images >= HALF, np.uint8(255), np.uint8(0))
    return Dataset("mnist-binary", split, white, labels, 10, (0, 1), DIGITS)


@register("fashion-mnist")
def fashion_mnist(split: str, root: Path) -> Dataset:
    """Read a split in the official order from root/fashion-mnist; its files are called as MNIST's."""
    images, labels = _read("fashion-mnist", split, root, FASHION_FOLDERS)
    return Dataset("fashion-mnist", split, images, labels, 10, (0, 1), CLOTHES)


def _read(
    source: str, split: str, root: Path, folders: Sequence[str]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    spellings = [_spellings(f"{PREFIX[split]}-{part}") for part in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    image_path, label_path = locate(source, root, folders=folders, wanted=spellings)
    with reading(image_path, kind="MNIST images (idx3)", remedy=FRESH_COPY):
        images = _idx(image_path, item_shape=(SIDE, SIDE))[:, np.newaxis]  # (N, 1, 28, 28)
    with reading(label_path, kind="MNIST labels (idx1)", remedy=FRESH_COPY):
        labels = _idx(label_path, item_shape=()).astype(np.int64)
        check_labels(labels, size=len(images), num_classes=10)
    return images, labels


def _spellings(name: str) -> tuple[str, ...]:
    return name, f"{name}.gz"


def _idx(path: Path, *, item_shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Read an idx file of bytes: 0, 0, type 8, number of axes; each axis as big-endian uint32; then the contents."""
    raw = read_inflated(path, most=MOST_BYTES)
    axes = 1 + len(item_shape)
    start = 4 + 4 * axes
    if raw[:4] != bytes((0, 0, 8, axes)):
        raise ValueError(f"it should begin with the magic number {0x800 + axes}, it begins with 0x{raw[:4].hex()}")
    if len(raw) < start:
        raise ValueError("it ends within its header")
    count, *shape = struct.unpack(f">{axes}I", raw[4:start])
    if tuple(shape) != item_shape:
        raise ValueError(f"its images should be {item_shape}, they are {tuple(shape)}")
    promised = start + count * SIDE ** len(item_shape)
    if count == 0 or len(raw) != promised:
        raise ValueError(f"its header promises {count} items in {promised} bytes, it has {len(raw)} bytes")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(count, *item_shape)
