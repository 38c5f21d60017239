"""Arrays and tensors as data: the same inputs as from a file, and one sentence for what cannot be data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from smoothcert.core.errors import InputError
from smoothcert.datasets import from_arrays, load

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 1, 5, 5), dtype=np.uint8)
LABELS = np.array([0, 2, 1, 1])


@pytest.mark.parametrize(
    "x",
    [
        IMAGES,
        IMAGES[:, 0],
        IMAGES.transpose(0, 2, 3, 1),
        torch.from_numpy(IMAGES),
        IMAGES / np.float32(255),
        torch.from_numpy(IMAGES / 255).requires_grad_(),
    ],
    ids=["NCHW", "NHW", "NHWC", "tensor", "float", "double with gradient"],
)
def test_images_are_those_of_a_file(x: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", x=IMAGES, y=LABELS)
    wanted, data = load(tmp_path / "file.npz"), from_arrays(x, LABELS.tolist())
    assert data.fingerprint == wanted.fingerprint
    assert (data.input_range, data.num_classes, data.name) == ((0, 1), 3, "arrays")


def test_other_numbers_keep_their_shape() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 2, 6))
    data = from_arrays(x, torch.tensor([0, 0, 0, 0]))
    assert data.input_range is None
    assert data.num_classes == 2, "a classifier has two at least"
    assert torch.equal(data.tensors([1, 2]), torch.from_numpy(x[1:3].astype(np.float32)))


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (IMAGES, [0, 1], "labels must be int64 of shape"),
        (IMAGES, [0.5] * 4, "y should be integers"),
        (IMAGES.astype(np.int64), LABELS, "neither uint8 images nor floating-point inputs"),
        (np.zeros(4, np.float32), LABELS, "neither uint8 images nor floating-point inputs"),
        (np.full((4, 3, 2), np.nan), LABELS, "inputs must be finite"),
        (np.zeros((4, 7, 5, 5), np.uint8), LABELS, "has no axis of 1 or 3 channels"),
        ([["a"]], [0], "neither uint8 images nor floating-point inputs"),
    ],
)
def test_what_cannot_be_data_is_one_sentence(x: Any, y: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_arrays(x, y)
