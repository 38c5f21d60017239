"""A folder is never in memory as a whole: what is held does not grow with it. At full size: benchmarks/folder.py."""

import tracemalloc

import numpy as np
import pytest

from smoothcert.datasets import Preprocessing, ReadOptions, load
from smoothcert.datasets.dataset import PART_BYTES


@pytest.fixture
def photos(tmp_path, write):
    large = np.random.default_rng(0).integers(0, 256, (3, 256, 256), dtype=np.uint8)
    raw = write.image(tmp_path / "photos/a/0.png", large).read_bytes()
    for k in range(300):
        path = tmp_path / f"photos/{'ab'[k % 2]}/{k}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(raw)
    return tmp_path / "photos"


def test_memory_follows_what_is_asked_for_and_not_the_folder(photos):
    """300 images of 196 608 bytes are 59 MB as pixels, 236 MB as numbers; ten of them, 8 MB at most."""
    load(photos).tensors([0])  # what is imported now does not count
    tracemalloc.start()
    data = load(photos, options=ReadOptions(Preprocessing(resize="250x250", crop="240")))
    assert len(data.fingerprint) == 64
    assert data.tensors(range(0, 300, 30)).shape == (10, 3, 240, 240)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one = 3 * 240 * 240
    assert peak < 10 * one * (4 + 1 + 4) + 3 * 2**20


def test_parts_are_small_and_whole():
    data = load("digits")
    (rows,) = data.parts(range(500))
    assert rows == list(range(500))
    shape = (3, 1024, 1024)
    big = type("Big", (), {"shape": shape})()
    parts = list(type(data).parts(big, range(17)))
    assert [row for part in parts for row in part] == list(range(17))
    assert all(4 * np.prod(shape) * len(part) <= PART_BYTES for part in parts)
    assert len(parts) > 1
