"""Grey 6x6 images of stripes that lie or stand, made when they are read."""

from pathlib import Path

import numpy as np

import smoothcert as sc
from smoothcert.datasets import Dataset


@sc.datasets.register("stripes")
def stripes(split: str, _root: Path) -> Dataset:
    """400 images to train and 60 to test; lying and standing take turns, contrast and brightness vary."""
    rng = np.random.default_rng({"train": 0, "test": 1}[split])
    labels = np.arange(400 if split == "train" else 60) % 2
    dark, bright = rng.integers(0, 80, len(labels)), rng.integers(170, 256, len(labels))
    lying = np.arange(6)[:, None] % 2 == np.zeros(6)  # (6, 6): rows alternate
    where = np.where(labels[:, None, None] == 0, lying, lying.T)
    images = np.where(where, bright[:, None, None], dark[:, None, None]).astype(np.uint8)
    return Dataset("stripes", split, images[:, None], labels, 2, (0, 1), ("lying", "standing"))
