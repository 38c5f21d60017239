import os
from pathlib import Path

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import load, names, register


def test_names():
    assert names() == (
        "cifar10", "cifar100", "digits", "fashion-mnist", "imagenet", "mnist", "mnist-binary", "mnist500", "mnist5k",
        "svhn", "tiny-imagenet",
    )  # fmt: skip


@pytest.mark.parametrize("source", ["mnist", "cifar10", "svhn"])
def test_root_is_the_argument_then_the_environment_then_data(monkeypatch, tmp_path, source):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOOTHCERT_DATA", str(tmp_path / "variable"))
    with pytest.raises(InputError, match=f"{tmp_path}/argument/{source}: put them there"):
        load(source, root=Path("argument"))
    with pytest.raises(InputError, match=f"{tmp_path}/variable/{source}: put them there"):
        load(source)
    monkeypatch.delenv("SMOOTHCERT_DATA")
    with pytest.raises(InputError, match=f"{tmp_path}/data/{source}: put them there"):
        load(source)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("MNIST", "did you mean mnist?"),
        ("cifar-10", "did you mean cifar10?"),
        ("digit", "did you mean digits?"),
        ("places365", "check the path"),
        ("missing/own.npz", "check the path"),
        ("", "check the path"),
        ("x" * 5000, "check the path"),
        ("a\0b", "check the path"),
    ],
)
def test_an_unknown_source_lists_the_names(source, hint):
    with pytest.raises(InputError) as refusal:
        load(source)
    assert ", ".join(names()) in str(refusal.value)
    assert str(refusal.value).endswith(hint)


@pytest.mark.parametrize("split", ["val", "", "Test"])
@pytest.mark.parametrize("source", ["digits", "mnist", "unknown"])
def test_an_unknown_split_is_refused_first(source, split):
    with pytest.raises(InputError, match=f"split must be 'train' or 'test', got '{split}'"):
        load(source, split)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "own.tiff").write_bytes(b"II*")
    with pytest.raises(
        InputError, match=r"an \.npz file, a folder of images, .*, got the file '.*own\.tiff': convert it"
    ):
        load(tmp_path / "own.tiff")


def test_a_name_goes_before_a_path(monkeypatch, tmp_path, write):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        write.image(tmp_path / "digits" / name / "0.png", np.zeros((1, 4, 4), np.uint8))
    assert len(load("digits")) == 500
    assert len(load("./digits")) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.zeros((2, 1)), y=[0, 1])
    (tmp_path / "own.npz").chmod(0)
    with pytest.raises(InputError, match=r"own\.npz"):
        load(tmp_path / "own.npz")


def test_a_taken_name_cannot_be_registered():
    with pytest.raises(ValueError, match="data set name 'mnist' is taken"):
        register("mnist")(lambda split, root: load("digits"))
