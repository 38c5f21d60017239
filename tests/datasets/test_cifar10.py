import os
import pickle
import re

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import cifar10, load

LABELS = np.array([6, 9, 0])


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)


@pytest.fixture(autouse=True)
def _small_binary_batches(monkeypatch):
    monkeypatch.setattr(cifar10, "IMAGES_PER_BINARY_BATCH", 3)


def write_batch(write, folder, name, kind, *, images, labels):
    if kind == "binary":
        return write.cifar_binary(folder / f"{name}.bin", images, labels)
    if kind == "python 2":
        return write.cifar_python2(folder / name, images, labels)
    return write.cifar_pickle(folder / name, images, labels, protocol=int(kind))


@pytest.mark.parametrize("kind", ["binary", "python 2", "0", "2", "4", "5"])
@pytest.mark.parametrize("folder", ["cifar10", "", "cifar-10-batches-py", "cifar10/cifar-10-batches-bin"])
def test_reads_back_what_was_written(tmp_path, write, images, kind, folder):
    write_batch(write, tmp_path / folder, "test_batch", kind, images=images, labels=LABELS)
    data = load("cifar10", root=tmp_path)
    assert np.array_equal(data.inputs, images)
    assert data.labels.tolist() == [6, 9, 0]
    assert (data.name, data.split, data.num_classes, data.input_range) == ("cifar10", "test", 10, (0, 1))
    assert [data.class_names[label] for label in data.labels] == ["frog", "truck", "airplane"]


@pytest.mark.parametrize("kind", ["binary", "python 2"])
def test_train_is_the_five_batches_in_order(tmp_path, write, rng, kind):
    images = rng.integers(0, 256, (15, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, 15)
    for k in range(5):
        part = slice(3 * k, 3 * k + 3)
        write_batch(write, tmp_path / "cifar10", f"data_batch_{k + 1}", kind, images=images[part], labels=labels[part])
    data = load("cifar10", "train", root=tmp_path)
    assert np.array_equal(data.inputs, images)
    assert np.array_equal(data.labels, labels)


def test_all_batches_are_needed_and_named(tmp_path, write, images):
    for k in range(1, 5):
        write.cifar_python2(tmp_path / f"data_batch_{k}", images, LABELS)
    with pytest.raises(InputError, match=rf"data_batch_5 or data_batch_5\.bin.* {tmp_path}/cifar10: put them there"):
        load("cifar10", "train", root=tmp_path)


def test_a_malicious_batch_is_refused_and_does_not_run(tmp_path):
    marker = tmp_path / "ran"

    class Malice:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({"data": Malice(), "labels": [0]}))
    sentence = rf"{path} cannot be read as a CIFAR-10 batch \(it names \w+\.system, .*: replace it by a fresh copy"
    with pytest.raises(InputError, match=sentence):
        load("cifar10", root=tmp_path)
    assert not marker.exists()


ROWS = np.zeros((2, 3072), dtype=np.uint8)


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ([1, 2], "not a dictionary"),
        ({"data": ROWS, "fine_labels": [0, 1]}, "no 'data' and 'labels'"),
        ({"data": ROWS, "labels": [0, 10]}, "0..9, got 10 in row 1"),
        ({"data": ROWS, "labels": [0, 2**80]}, "too large"),
        ({"data": ROWS, "labels": [0]}, "shape (2,)"),
        ({"data": ROWS, "labels": [0, "1"]}, "an array of integers is expected"),
        ({"data": ROWS[:, 1:], "labels": [0, 1]}, "uint8 (N, 3072), they are uint8 (2, 3071)"),
        ({"data": ROWS.astype(np.int64), "labels": [0, 1]}, "they are int64"),
        ({"data": ROWS.astype(float), "labels": [0, 1]}, "where integers are expected"),
        ({"data": ROWS[:0], "labels": []}, "it is empty"),
    ],
)
def test_a_wrong_batch_is_named_with_the_reason(tmp_path, batch, says):
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps(batch))
    with pytest.raises(InputError, match=f"{path} .*{re.escape(says)}.*: replace it by a fresh copy"):
        load("cifar10", root=tmp_path)


def test_a_binary_batch_cut_between_two_images_is_refused(tmp_path, write, images):
    path = write.cifar_binary(tmp_path / "test_batch.bin", images[:2], LABELS[:2])
    with pytest.raises(InputError, match=f"{path} .*should have 9219 bytes, it has 6146.*: replace it by a fresh copy"):
        load("cifar10", root=tmp_path)


def test_the_official_binary_length(monkeypatch):
    monkeypatch.undo()
    assert cifar10.IMAGES_PER_BINARY_BATCH * (1 + cifar10.PIXELS) == 30_730_000
