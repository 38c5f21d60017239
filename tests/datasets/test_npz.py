import re

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import load

Y = np.array([0, 2, 1, 0])


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (4, 3, 6, 5), dtype=np.uint8)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("layout", ["NHW", "NHWC", "NCHW", "NHW1", "N1HW", "float32", "float64"])
def test_images_come_back(tmp_path, images, save, layout):
    grey = images[:, :1]
    stored, expected = {
        "NHW": (grey[:, 0], grey),
        "NHWC": (images.transpose(0, 2, 3, 1), images),
        "NCHW": (images, images),
        "NHW1": (grey.transpose(0, 2, 3, 1), grey),
        "N1HW": (grey, grey),
        "float32": (images.astype(np.float32) / np.float32(255), images),
        "float64": (images / 255, images),
    }[layout]
    save(tmp_path / "own.npz", x=stored, y=Y)
    data = load(str(tmp_path / "own.npz"))
    assert np.array_equal(data.inputs, expected)
    assert data.labels.tolist() == [0, 2, 1, 0]
    assert (data.name, data.num_classes, data.input_range, data.class_names) == ("own", 3, (0, 1), ("0", "1", "2"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_tables_come_back_as_float32(tmp_path, dtype):
    table = np.array([[0.5, -3, 1000], [0, 1, 2], [7, 8, 9], [1, 1, 1]], dtype=dtype)
    np.savez(tmp_path / "own.npz", x=table, y=Y.astype(np.uint8)[:, None])
    data = load(tmp_path / "own.npz", "train")
    assert data.inputs.dtype == np.float32
    assert data.inputs.tolist() == table.tolist()
    assert (data.split, data.input_range, data.labels.tolist()) == ("train", None, [0, 2, 1, 0])


def test_splits_are_told_apart_and_share_their_classes(tmp_path, images):
    y_train = np.array([0, 4, 1, 1])
    np.savez(
        tmp_path / "own.npz", x_train=images, y_train=y_train, x_test=images[::-1], y_test=Y, note=np.array("mine")
    )
    train, test = load(tmp_path / "own.npz", "train"), load(tmp_path / "own.npz", "test")
    assert np.array_equal(train.inputs, images)
    assert np.array_equal(test.inputs, images[::-1])
    assert train.labels.tolist() == [0, 4, 1, 1]
    assert test.labels.tolist() == [0, 2, 1, 0]
    assert train.num_classes == test.num_classes == 5


IMAGES = np.zeros((4, 5, 6), dtype=np.uint8)
HUGE = np.array([0, 1, 2, 2**40])


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x_train": IMAGES, "y_train": Y}, "neither x_test and y_test nor x and y, but x_train, y_train"),
        ({"x": IMAGES}, "nor x and y, but x)"),
        ({}, "but nothing"),
        ({"x": IMAGES * np.nan, "y": Y}, "inputs must be finite float32 numbers, got another in row 0"),
        ({"x": np.zeros((4, 8, 8, 4)), "y": Y}, "no axis of 1 or 3 channels"),
        (
            {"x": IMAGES.astype(np.int64), "y": Y},
            "x is int64 (4, 5, 6), neither images (uint8 or float) nor a float table",
        ),
        ({"x": IMAGES[:, 0], "y": Y}, "x is uint8 (4, 6), neither images (uint8 or float) nor a float table"),
        ({"x": np.zeros((4, 3, 8, 3), np.uint8), "y": Y}, "two axes that may be the channels"),
        ({"x": np.zeros((4, 8, 8, 4), np.uint8), "y": Y}, "no axis of 1 or 3 channels"),
        ({"x": np.full((4, 2), np.inf), "y": Y}, "finite"),
        ({"x": np.full((4, 2), 1e300), "y": Y}, "finite"),
        ({"x": IMAGES, "y": Y[:3]}, "shape (4,)"),
        ({"x": IMAGES[:0], "y": Y[:0]}, "y should be integers of shape (N,)"),
        ({"x": IMAGES, "y": Y / 1}, "y should be integers of shape (N,), it is float64"),
        ({"x": IMAGES, "y": np.eye(4, dtype=int)}, "y should be integers of shape (N,), it is int64 (4, 4)"),
        ({"x": IMAGES, "y": Y - 1}, "count the classes from 0, it has -1 to 1"),
        ({"x": IMAGES, "y": HUGE}, "count the classes from 0, it has 0 to 1099511627776"),
        ({"x": IMAGES, "y": Y * 0}, "at least 2"),
        ({"x": IMAGES, "y": np.array([0, 1, None, 2])}, "it holds Python objects, which are never read"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(tmp_path, arrays, says):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=f"{path} .*{re.escape(says)}.*: write it with numpy.savez"):
        load(path)


def test_float_images_off_the_grid_of_255_stay_floats(tmp_path, images):
    """One number beside the grid makes all of them floats: nothing is moved behind the user's back."""
    stored = (images / 255).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=stored, y=Y)
    assert load(tmp_path / "own.npz").input_range == (0, 1)
    stored[2, 1, 3, 4] = np.nextafter(stored[2, 1, 3, 4], np.float32(0.5))
    np.savez(tmp_path / "own.npz", x=stored, y=Y)
    data = load(tmp_path / "own.npz")
    assert (data.input_range, data.inputs.dtype) == (None, np.float32)
    assert np.array_equal(data.tensors(range(4)).numpy(), stored)
    np.savez(tmp_path / "own.npz", x=stored.transpose(0, 2, 3, 1), y=Y)
    assert np.array_equal(load(tmp_path / "own.npz").inputs, stored)


@pytest.mark.parametrize("raw", [b"", b"text", b"\x80\x04N.", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_archive_is_refused(tmp_path, raw):
    path = tmp_path / "own.npz"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=f"{path} .*not a complete .npz archive.*: write it with numpy.savez"):
        load(path)
