import io
import struct

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from smoothcert.datasets.mat import read_mat


def saved(variables, *, compressed):
    stream = io.BytesIO()
    savemat(stream, variables, do_compression=compressed)
    return stream.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 5), (4, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_integer_arrays_as_scipy_reads_them(rng, compressed, dtype, shape):
    info = np.iinfo(dtype)
    array = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    raw = saved({"before": {"a": [1.5, "text"]}, "y": array, "z": 3.0}, compressed=compressed)
    assert np.array_equal(loadmat(io.BytesIO(raw))["y"], array)
    variables = read_mat(raw, ("X", "y"))
    assert list(variables) == ["y"]
    assert variables["y"].dtype == np.dtype(dtype)
    assert np.array_equal(variables["y"], array)


def test_compressed_and_plain_variables_may_follow_each_other():
    # Compressed elements are not padded, so what follows them starts anywhere.
    a, b = np.array([[1, 2, 3]], dtype=np.uint8), np.array([[4], [5]], dtype=np.int32)
    raw = (
        saved({"a": a}, compressed=True)
        + saved({"b": b}, compressed=False)[128:]
        + saved({"c": a}, compressed=True)[128:]
    )
    variables = read_mat(raw, ("a", "b", "c"))
    assert {name: array.tolist() for name, array in variables.items()} == {
        "a": [[1, 2, 3]],
        "b": [[4], [5]],
        "c": [[1, 2, 3]],
    }


def test_a_big_endian_file_by_hand():
    # One matrix y: flags (class 11, uint16), dimensions 2x1, the name in short form, the values in short form as bytes.
    matrix = (
        struct.pack(">4I", 6, 8, 11, 0)
        + struct.pack(">2I2i", 5, 8, 2, 1)
        + b"\0\1\0\1y\0\0\0"
        + b"\0\2\0\2\x07\xff\0\0"
    )
    raw = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI" + struct.pack(">2I", 14, len(matrix)) + matrix
    assert loadmat(io.BytesIO(raw))["y"].tolist() == [[7], [255]]
    array = read_mat(raw, ("y",))["y"]
    assert array.dtype == np.uint16
    assert array.tolist() == [[7], [255]]


@pytest.mark.parametrize("value", [1.5, "text", {"a": 1}, np.array([1 + 2j]), np.array([["a", 1]], dtype=object)])
def test_a_named_variable_of_another_kind_is_refused(value):
    with pytest.raises(ValueError, match="in it is not"):
        read_mat(saved({"y": value}, compressed=False), ("y",))


@pytest.mark.parametrize("raw", [b"", bytes(128), bytes(124) + b"\x00\x02IM", b"MATLAB"])
def test_another_version_is_refused(raw):
    with pytest.raises(ValueError, match="not a MATLAB 5 file"):
        read_mat(raw, ("y",))
