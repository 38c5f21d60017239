import hashlib
import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, Subset

LEVELS = np.arange(256, dtype=np.uint8).reshape(4, 1, 8, 8)
LABELS = np.array([0, 1, 2, 1])
IMAGES = Dataset("levels", "test", LEVELS, LABELS, 3, (0, 1), ("a", "b", "c"))
TABLE = Dataset("table", "train", np.float32([[0.5, -3], [1, 2]]), np.array([1, 0]), 2, None, ("no", "yes"))


def test_image_tensors_are_uint8_over_255_rounded_once():
    x = IMAGES.tensors(range(4))
    assert x.dtype == torch.float32
    # A float64 quotient rounded to float32 is the correctly rounded float32 quotient (53 >= 2 * 24 + 2 bits).
    assert x.flatten().tolist() == [float(np.float32(level / 255)) for level in range(256)]


def test_tensors_follow_the_order_asked_for_and_are_new():
    x = IMAGES.tensors([2, 0, 2])
    assert x.shape == (3, 1, 8, 8)
    assert torch.equal(x[0], x[2])
    assert x[1, 0, 0, 1].item() == float(np.float32(1 / 255))
    x.zero_()
    assert IMAGES.inputs[2].min() == 128
    assert IMAGES.tensors([]).shape == (0, 1, 8, 8)


def test_table_tensors_come_as_they_are():
    assert TABLE.tensors([1, 0]).tolist() == [[1, 2], [0.5, -3]]


@pytest.mark.parametrize("indices", [[4], [-1], [0.5], [[0]], [True]])
def test_indices_outside_are_refused(indices):
    with pytest.raises(InputError, match="indices must"):
        IMAGES.tensors(indices)


def test_it_cannot_change():
    with pytest.raises(FrozenInstanceError):
        IMAGES.name = "other"
    with pytest.raises(ValueError, match="read-only"):
        IMAGES.inputs[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        IMAGES.labels[0] = 0


def test_fingerprint_is_the_hash_of_type_shape_and_contents():
    by_hand = hashlib.sha256(b"|u1(4, 1, 8, 8)" + bytes(range(256)) + b"<i8(4,)" + LABELS.astype("<i8").tobytes())
    assert IMAGES.fingerprint == by_hand.hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": LEVELS[::-1]},
        {"inputs": LEVELS.reshape(4, 1, 16, 4)},
        {"labels": np.array([0, 1, 2, 2])},
    ],
    ids=["contents", "shape", "labels"],
)
def test_fingerprint_tells_data_apart(change):
    assert replace(IMAGES, **change).fingerprint != IMAGES.fingerprint


def test_fingerprint_ignores_the_layout_in_memory():
    assert replace(IMAGES, inputs=np.asfortranarray(LEVELS)).fingerprint == IMAGES.fingerprint


@pytest.mark.parametrize(
    ("data", "change", "says"),
    [
        (IMAGES, {"split": "val"}, "'train' or 'test', got 'val'"),
        (IMAGES, {"labels": LABELS[:3]}, r"shape \(4,\)"),
        (IMAGES, {"labels": LABELS.astype(np.int32)}, "int64"),
        (IMAGES, {"labels": np.array([0, 3, 0, 0])}, r"0\.\.2, got 3 in row 1"),
        (IMAGES, {"labels": np.array([0, 0, 0, -1])}, r"0\.\.2, got -1 in row 3"),
        (IMAGES, {"inputs": LEVELS[:0], "labels": LABELS[:0]}, "at least one row"),
        (IMAGES, {"inputs": LEVELS[:, 0]}, r"\(N, C, H, W\)"),
        (IMAGES, {"inputs": LEVELS.astype(float)}, "uint8 images or float32 numbers"),
        (IMAGES, {"input_range": None}, "input_range"),
        (IMAGES, {"class_names": ("a", "b")}, "class_names"),
        (IMAGES, {"num_classes": 1, "class_names": ("a",)}, "at least 2"),
        (TABLE, {"inputs": np.float32([[0, 0], [0, np.nan]])}, "finite float32 numbers, got another in row 1"),
        (TABLE, {"inputs": np.float32([[0, np.inf], [0, 0]])}, "finite float32 numbers, got another in row 0"),
        (TABLE, {"input_range": (0, 1)}, "input_range"),
    ],
)
def test_a_broken_promise_is_refused(data, change, says):
    with pytest.raises(InputError, match=says):
        replace(data, **change)


@pytest.mark.parametrize(
    ("subset", "size", "indices"),
    [
        (Subset(), 3, [0, 1, 2]),
        (Subset(every=20), 100, [0, 20, 40, 60, 80]),
        (Subset(every=20), 101, [0, 20, 40, 60, 80, 100]),
        (Subset(start=7, every=3), 15, [7, 10, 13]),
        (Subset(start=7, every=3, limit=2), 15, [7, 10]),
        (Subset(limit=2), 1, [0]),
        (Subset(start=4), 5, [4]),
    ],
)
def test_subset_indices(subset, size, indices):
    assert subset.indices(size) == indices
    assert Subset.from_json(json.loads(json.dumps(subset.to_json()))) == subset


def test_the_papers_subset_of_cifar10_has_500_images():
    assert Subset(every=20).indices(10_000) == list(range(0, 10_000, 20))


def test_a_start_beyond_the_end_is_refused_with_the_size():
    with pytest.raises(InputError, match="below the 500 inputs of the data set, got 500: choose a smaller"):
        Subset(start=500).indices(500)


@pytest.mark.parametrize(
    "fields", [{"start": -1}, {"every": 0}, {"limit": 0}, {"start": 1.0}, {"every": True}, {"limit": "5"}, {"stop": 3}]
)
def test_subset_fields_are_checked(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        Subset.from_json(fields)
