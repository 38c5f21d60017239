"""What may be given as inputs, and what is refused instead of being guessed."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from smoothcert.core.errors import InputError
from smoothcert.engine.inputs import as_batch

IMAGE = Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("x", "shape", "found"),
    [
        (torch.rand(4), None, (1, 4)),
        (torch.rand(5, 4), None, (5, 4)),
        (torch.rand(2, 1, 4, 4), None, (2, 1, 4, 4)),
        (torch.rand(4), (4,), (1, 4)),
        (torch.rand(5, 28, 28), (28, 28), (5, 28, 28)),
        (torch.rand(5, 28, 28), (5, 28, 28), (1, 5, 28, 28)),
        (torch.rand(1, 5, 28, 28), (5, 28, 28), (1, 5, 28, 28)),
        (np.random.default_rng(0).random((3, 4))[::-1], None, (3, 4)),
        ([[0.1, 0.2], [0.3, 0.4]], None, (2, 2)),
        (torch.rand(3, 4, dtype=torch.float64), None, (3, 4)),
    ],
)
def test_shapes(x: Any, shape: tuple[int, ...] | None, found: tuple[int, ...]) -> None:
    batch = as_batch(x, shape, None)
    assert tuple(batch.shape) == found
    assert batch.dtype == torch.float32
    assert np.allclose(batch.numpy().reshape(-1), np.asarray(x, dtype=np.float32).reshape(-1))
    if isinstance(x, torch.Tensor):
        batch.zero_()
        assert float(x.abs().max()) > 0, "a copy"


@pytest.mark.parametrize(
    ("x", "shape", "words"),
    [
        (torch.rand(5, 28, 28), None, r"\(5, 28, 28\) can be read as one input or as a batch of 5: .*e=\(28, 28\)"),
        (torch.rand(5, 28, 28), None, r"or give x\[None\] for one input"),
        (torch.rand(2, 32, 32, 3), (3, 32, 32), r"\(32, 32, 3\), with the channels last; give x.permute\(0, 3, 1, 2\)"),
        (torch.rand(32, 32, 3), (3, 32, 32), r"with the channels last; give x.permute\(2, 0, 1\)"),
        (torch.rand(2, 16, 16), (3, 32, 32), r"must have shape \(3, 32, 32\) each, got \(2, 16, 16\); give inputs"),
        (torch.rand(2, 5), (4,), r"must have shape \(4,\) each, got \(5,\)"),
        (IMAGE, None, r"got a PIL image; convert it: .*numpy.array\(image\)\).permute\(2, 0, 1\)\[None\] / 255"),
        ([IMAGE, IMAGE], None, "got a PIL image"),
        ([torch.rand(3), torch.rand(3)], None, r"got a list of tensors; give torch.stack\(x\)"),
        ("image.png", None, "must be a tensor or an array of numbers, got str"),
        (None, None, "got NoneType"),
        (np.array(["a", "b"]), None, "got ndarray of <U1"),
        (np.array([object()]), None, "got ndarray of object"),
        ({"x": 1}, None, "got dict"),
        (torch.zeros(2, 3, dtype=torch.uint8), None, "divide 8-bit images by 255"),
        (torch.zeros(2, 3, dtype=torch.bool), None, "must be floating point, got torch.bool"),
        (torch.zeros(2, 3, dtype=torch.complex64), None, "must be floating point, got torch.complex64"),
        (torch.tensor(0.3), None, "at least one number"),
        (torch.empty(0, 3), None, "at least one number"),
        (torch.tensor([0.1, float("nan")]), None, "finite"),
    ],
)  # fmt: skip
def test_refusals(x: Any, shape: tuple[int, ...] | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        as_batch(x, shape, None)


def test_the_way_out_of_a_pil_image_works() -> None:
    batch = as_batch(torch.from_numpy(np.array(IMAGE)).permute(2, 0, 1)[None] / 255, (3, 4, 4), (0, 1))
    assert tuple(batch.shape) == (1, 3, 4, 4)
