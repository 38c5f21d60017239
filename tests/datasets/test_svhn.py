import re

import numpy as np
import pytest
from scipy.io import savemat

from smoothcert.core.errors import InputError
from smoothcert.datasets import load

DIGITS = np.array([1, 9, 0, 5])


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("folder", ["svhn", ""])
@pytest.mark.parametrize("split", ["train", "test"])
def test_reads_back_what_was_written_with_ten_as_zero(tmp_path, write, images, *, compressed, folder, split):
    write.svhn(tmp_path / folder / f"{split}_32x32.mat", images, DIGITS, compressed=compressed)
    data = load("svhn", split, root=tmp_path)
    assert np.array_equal(data.inputs, images)
    assert data.labels.tolist() == [1, 9, 0, 5]
    assert (data.name, data.split, data.num_classes, data.input_range) == ("svhn", split, 10, (0, 1))


def test_a_single_image_keeps_its_axes(tmp_path, write, images):
    write.svhn(tmp_path / "test_32x32.mat", images[:1], DIGITS[:1])
    assert load("svhn", root=tmp_path).inputs.shape == (1, 3, 32, 32)


def test_the_missing_file_is_named_with_its_place(tmp_path):
    with pytest.raises(InputError, match=rf"test_32x32\.mat, .*{tmp_path}/svhn: put them there"):
        load("svhn", root=tmp_path)


X = np.zeros((32, 32, 3, 2), dtype=np.uint8)
Y = np.array([[1], [10]], dtype=np.uint8)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"X": X}, "no variables X and y"),
        ({"X": X.astype(float), "y": Y}, "an array in it is not of integers"),
        ({"X": X[:16], "y": Y}, "it is uint8 (16, 32, 3, 2)"),
        ({"X": X[..., 0], "y": Y}, "it is uint8 (32, 32, 3)"),
        ({"X": X, "y": Y[:1]}, "y should be 2 integers"),
        ({"X": X, "y": Y.astype(float)}, "an array in it is not of integers"),
        ({"X": X, "y": Y - 1}, "y should lie in 1..10, it has 0 to 9"),
        ({"X": X, "y": Y + 1}, "y should lie in 1..10, it has 2 to 11"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(tmp_path, variables, says):
    path = tmp_path / "test_32x32.mat"
    savemat(path, variables)
    with pytest.raises(InputError, match=f"{path} .*{re.escape(says)}.*: replace it by a fresh copy"):
        load("svhn", root=tmp_path)


def test_a_newer_matlab_file_is_refused(tmp_path):
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(512))
    with pytest.raises(InputError, match=f"{path} .*not a MATLAB 5 file.*: replace it by a fresh copy"):
        load("svhn", root=tmp_path)
