"""Noise by row: a row is the same whatever is drawn beside it, and float noises have their laws."""

import numpy as np
import pytest
import torch
from scipy import stats

from smoothcert.core.randomness import BY_BLOCK, BY_ROW, RowStream
from smoothcert.noise import Ablation, Gaussian, Laplace, Uniform
from smoothcert.noise.rows import fill_laplace, fill_normals, fill_uniform

STREAM = RowStream(0, "x", "test")
FILLS = {"normal": fill_normals, "laplace": fill_laplace, "uniform": fill_uniform}
LAWS = {"normal": stats.norm(), "laplace": stats.laplace(), "uniform": stats.uniform(-1, 2)}


@pytest.mark.parametrize("name", FILLS)
def test_float_noises_have_their_law(name: str) -> None:
    out = np.empty((500, 1001), dtype=np.float32)
    FILLS[name](STREAM, 0, out)
    law = LAWS[name]
    assert stats.kstest(out.ravel(), law.cdf).pvalue > 1e-3
    for column in (0, 500, 501, 1000):  # a normal's two halves meet at 501
        assert stats.kstest(out[:, column], law.cdf).pvalue > 1e-4
    tail = law.isf(1e-4)
    beyond = int((np.abs(out) > tail).sum())
    assert min(stats.binom.sf(beyond - 1, out.size, 2e-4), stats.binom.cdf(beyond, out.size, 2e-4)) > 1e-4


def test_the_halves_of_a_pair_of_normals_are_unrelated() -> None:
    out = np.empty((20_000, 2), dtype=np.float32)
    fill_normals(STREAM, 0, out)
    cosine, sine = out.T
    assert stats.kstest(np.hypot(cosine, sine) ** 2 / 2, stats.expon.cdf).pvalue > 1e-3
    assert stats.kstest(np.arctan2(sine, cosine), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(cosine**2, sine**2)[0, 1]) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("values", [2, 17, 256])
def test_ablation_keeps_and_replaces_as_often_as_it_says(values: int) -> None:
    noise, out = Ablation(keep=0.7, values=values), torch.empty(2000, 50)
    x = torch.full((50,), 1.0 / (values - 1))
    noise.draw_rows(x, STREAM, 0, out)
    levels = (out * (values - 1)).round().long().flatten().numpy()
    observed = np.bincount(levels, minlength=values)
    expected = np.full(values, 0.3 / (values - 1) * levels.size)
    expected[1] = 0.7 * levels.size
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_who_is_drawn_by_row() -> None:
    class Mine(Gaussian):
        def draw(self, x, generator, strength=None):  # type: ignore[no-untyped-def]
            return x + 1

    for kind in (Gaussian, Uniform, Laplace, Ablation):
        assert kind.stream_kind("cpu") == BY_ROW
        assert kind.stream_kind("cuda:1") == BY_BLOCK
    assert Mine.stream_kind("cpu") == BY_BLOCK, "who draws otherwise than their parent means it"
    out = torch.empty(3, 2)
    Mine(0.5).draw_rows(torch.zeros(2), STREAM, 0, out)
    assert torch.equal(out, torch.ones(3, 2))
