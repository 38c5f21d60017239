"""Every kind of file, cut at many places and with bytes changed: a checked data set or one sentence, nothing else."""

import re
import warnings

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, cifar10, load

LABELS = np.array([0, 3, 1])
CUTS, FLIPS = 60, 150


def mnist(root, write, rng, *, gz, file):
    paths = write.mnist(root, "test", rng.integers(0, 256, (3, 28, 28), dtype=np.uint8), LABELS, gz=gz)
    return "mnist", paths[file]


def batch(root, write, rng, *, how):
    images = rng.integers(0, 4, (3, 3, 32, 32), dtype=np.uint8)
    if how == "binary":
        return "cifar10", write.cifar_binary(root / "test_batch.bin", images, LABELS)
    if how == "python 2":
        return "cifar10", write.cifar_python2(root / "test_batch", images, LABELS)
    return "cifar10", write.cifar_pickle(root / "test_batch", images, LABELS, protocol=how)


def svhn(root, write, rng, *, compressed):
    images = rng.integers(0, 4, (3, 3, 32, 32), dtype=np.uint8)
    return "svhn", write.svhn(root / "test_32x32.mat", images, LABELS, compressed=compressed)


def npz(root, write, rng, *, save):
    save(root / "own.npz", x_test=rng.integers(0, 4, (3, 9, 9), dtype=np.uint8), y_test=LABELS)
    return root / "own.npz", root / "own.npz"


def table(root, write, rng, *, save):
    save(root / "own.npz", x=rng.normal(size=(3, 5)), y=LABELS)
    return root / "own.npz", root / "own.npz"


def folder(root, write, rng, *, suffix):
    for name in ("a/0", "b/0", "b/1"):
        path = write.image(root / f"{name}.{suffix}", rng.integers(0, 256, (3, 9, 8), dtype=np.uint8))
    return root, path


KINDS = {
    "mnist images": (mnist, {"gz": False, "file": 0}),
    "mnist labels": (mnist, {"gz": False, "file": 1}),
    "mnist images gz": (mnist, {"gz": True, "file": 0}),
    "mnist labels gz": (mnist, {"gz": True, "file": 1}),
    "cifar10 binary": (batch, {"how": "binary"}),
    "cifar10 python 2": (batch, {"how": "python 2"}),
    "cifar10 pickle 0": (batch, {"how": 0}),
    "cifar10 pickle 2": (batch, {"how": 2}),
    "cifar10 pickle 4": (batch, {"how": 4}),
    "cifar10 pickle 5": (batch, {"how": 5}),
    "svhn": (svhn, {"compressed": False}),
    "svhn compressed": (svhn, {"compressed": True}),
    "npz": (npz, {"save": np.savez}),
    "npz compressed": (npz, {"save": np.savez_compressed}),
    "table": (table, {"save": np.savez}),
    **{suffix: (folder, {"suffix": suffix}) for suffix in ("png", "jpg", "bmp", "webp", "ppm")},
}
# What a cut leaves whole: Pillow needs no IEND of a PNG, accepts a JPEG without its end marker, and a BMP's last row
# padding carries nothing.
MAY_SURVIVE_A_CUT = {"png", "jpg", "bmp"}


@pytest.fixture(params=KINDS)
def case(request, tmp_path, write, rng, monkeypatch):
    monkeypatch.setattr(cifar10, "IMAGES_PER_BINARY_BATCH", 3)
    make, options = KINDS[request.param]
    source, path = make(tmp_path, write, rng, **options)
    return request.param, source, path, tmp_path


def outcome(source, path, root) -> Dataset | None:
    """The data set, or None where it was refused by one good sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            data = load(source, root=root)
            np.asarray(data.inputs)  # images are read when they are asked for
            return data
        except InputError as refusal:
            sentence = str(refusal)
    assert str(path) in sentence
    assert "\n" not in sentence
    assert re.search(r": (replace it by|write it with|repair or convert it|give --resize)", sentence)
    return None


def test_a_cut_file_is_refused(case):
    kind, source, path, root = case
    whole = path.read_bytes()
    assert outcome(source, path, root) is not None
    ends = {
        *range(0, len(whole), max(1, len(whole) // CUTS)),
        *range(min(20, len(whole))),
        len(whole) - 2,
        len(whole) - 1,
    }
    for end in sorted(ends):
        path.write_bytes(whole[:end])
        assert outcome(source, path, root) is None or kind in MAY_SURVIVE_A_CUT, f"cut at {end} of {len(whole)}"


def test_changed_bytes_never_raise_anything_else(case, rng):
    _kind, source, path, root = case
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    # Half of the changes go to the first and last 200 bytes, where headers and directories are.
    edges = np.r_[0 : min(200, whole.size), max(0, whole.size - 200) : whole.size]
    for k in range(FLIPS):
        damaged = whole.copy()
        at = rng.choice(edges) if k % 2 else rng.integers(whole.size)
        damaged[at] ^= 1 << rng.integers(8) if k % 4 < 2 else rng.integers(1, 256)
        path.write_bytes(damaged.tobytes())
        outcome(source, path, root)


def test_an_empty_or_foreign_file_is_refused(case):
    _kind, source, path, root = case
    for raw in (b"", b"\0", b"<html>404 not found</html>", bytes(range(256)) * 8):
        path.write_bytes(raw)
        assert outcome(source, path, root) is None
