import struct

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import load


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (7, 28, 28), dtype=np.uint8)


LABELS = np.array([3, 0, 9, 1, 1, 5, 7])


@pytest.mark.parametrize("gz", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("folder", ["mnist", "", "MNIST/raw"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_reads_back_what_was_written(tmp_path, write, images, *, gz, folder, split):
    write.mnist(tmp_path / folder, split, images, LABELS, gz=gz)
    data = load("mnist", split, root=tmp_path)
    assert np.array_equal(data.inputs[:, 0], images)
    assert data.labels.tolist() == LABELS.tolist()
    assert (data.name, data.split, data.num_classes, data.input_range) == ("mnist", split, 10, (0, 1))
    assert data.class_names == tuple("0123456789")


def test_one_file_may_be_compressed_and_the_other_not(tmp_path, write, images):
    write.mnist(tmp_path, "test", images, LABELS)[0].unlink()
    write.mnist(tmp_path, "test", images, LABELS, gz=True)[1].unlink()
    assert np.array_equal(load("mnist", root=tmp_path).inputs[:, 0], images)


def test_the_missing_files_are_named_with_their_place(tmp_path, write, images):
    write.mnist(tmp_path / "mnist", "train", images, LABELS)
    with pytest.raises(InputError) as refusal:
        load("mnist", "test", root=tmp_path)
    sentence = str(refusal.value)
    for part in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz", str(tmp_path / "mnist"), "SMOOTHCERT_DATA"):
        assert part in sentence


def idx3(count: int, rows: int, columns: int, contents: int) -> bytes:
    return struct.pack(">4I", 0x803, count, rows, columns) + bytes(contents)


@pytest.mark.parametrize(
    ("file", "raw", "says"),
    [
        (0, struct.pack(">2I", 0x801, 7) + bytes(7), "magic number 2051, it begins with 0x00000801"),
        (0, idx3(7, 28, 28, 7 * 784 - 1), "promises 7 items in 5504 bytes, it has 5503"),
        (0, idx3(7, 28, 28, 7 * 784 + 1), "promises 7 items in 5504 bytes, it has 5505"),
        (0, idx3(2**32 - 1, 28, 28, 784), "promises 4294967295 items"),
        (0, idx3(0, 28, 28, 0), "promises 0 items"),
        (0, idx3(7, 14, 56, 7 * 784), r"should be \(28, 28\), they are \(14, 56\)"),
        (0, b"\0\0\x08\x03\0\0", "ends within its header"),
        (0, b"", "magic number 2051"),
        (1, idx3(7, 28, 28, 7 * 784), "magic number 2049"),
        (1, struct.pack(">2I", 0x801, 6) + bytes(6), r"shape \(7,\)"),
        (1, struct.pack(">2I", 0x801, 7) + bytes([0, 1, 2, 3, 10, 5, 6]), r"0\.\.9, got 10 in row 4"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(tmp_path, write, images, *, file, raw, says):
    path = write.mnist(tmp_path, "test", images, LABELS)[file]
    path.write_bytes(raw)
    with pytest.raises(InputError, match=rf"{path} cannot be read as MNIST .*{says}.*: replace it by a fresh copy"):
        load("mnist", root=tmp_path)
