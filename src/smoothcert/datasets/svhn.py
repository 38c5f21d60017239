"""SVHN, cropped digits (Netzer et al. 2011), from its official MATLAB files."""

from pathlib import Path

import numpy as np

from smoothcert.core.files import read_file
from smoothcert.datasets.dataset import Dataset
from smoothcert.datasets.files import FRESH_COPY, locate, reading
from smoothcert.datasets.mat import read_mat
from smoothcert.datasets.registry import register

MOST_BYTES = 2**29  # of a file, and of all that is unpacked from it: twice the largest official one


@register("svhn")
def svhn(split: str, root: Path) -> Dataset:
    """Read a split in the official order from {split}_32x32.mat in root/svhn or root.

    The files call the digit 0 "10"; here the label is the digit.
    """
    (path,) = locate("svhn", root, folders=("svhn", ""), wanted=[(f"{split}_32x32.mat",)])
    with reading(path, kind="SVHN cropped digits (MATLAB)", remedy=FRESH_COPY):
        variables = read_mat(read_file(path, most=MOST_BYTES), ("X", "y"), most=MOST_BYTES)
        if "X" not in variables or "y" not in variables:
            raise ValueError("it has no variables X and y")
        images, numbers = variables["X"], variables["y"]
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.size == 0:
            raise ValueError(f"X should be uint8 (32, 32, 3, N), it is {images.dtype} {images.shape}")
        if numbers.dtype.kind not in "iu" or numbers.size != images.shape[3]:
            raise ValueError(f"y should be {images.shape[3]} integers, it is {numbers.dtype} {numbers.shape}")
        if numbers.min() < 1 or numbers.max() > 10:
            raise ValueError(f"y should lie in 1..10, it has {numbers.min()} to {numbers.max()}")
    digits = numbers.astype(np.int64).ravel() % 10
    names = tuple(str(digit) for digit in range(10))
    return Dataset("svhn", split, images.transpose(3, 2, 0, 1), digits, 10, (0, 1), names)
