"""What every registered noise must keep: radius and required_p are inverse, monotone and rounded to the safe side."""

import itertools
import math
from collections.abc import Callable

import mpmath
import pytest
import torch

from smoothcert.core.randomness import JoinedRows, RowStream, generator
from smoothcert.noise import NOISES, Ablation, Gaussian, Laplace, Noise, Uniform

CASES: list[Noise] = [
    Gaussian(sigma=0.25), Gaussian(sigma=2.0), Gaussian(sigma=0.5, norm="linf", dim=784),
    Gaussian(sigma=0.25, grid=1 / 255), Gaussian(sigma=0.12, grid=1 / 255, offset=0.0137), Gaussian(sigma=2.0, grid=1),
    Gaussian(sigma=0.5, norm="linf", dim=784, grid=1 / 15, offset=0.3),
    Uniform(half_width=0.4, grid=1 / 255), Uniform(half_width=3.0, grid=1 / 16, offset=0.21),
    Uniform(half_width=0.4), Uniform(half_width=3.0), Laplace(scale=0.3), Laplace(scale=2.0),
    Ablation(keep=0.8, values=2), Ablation(keep=0.2), Ablation(keep=0.9, values=17),
]  # fmt: skip
PS = [0.5 + 1e-12, 0.500001, 0.51, 0.6, 0.75, 0.9, 0.99, 0.9999, 0.99993, 1 - 1e-9]
named = pytest.mark.parametrize("noise", CASES, ids=str)


def test_every_noise_is_here() -> None:
    assert {type(noise) for noise in CASES} == set(NOISES.values())


@named
def test_radius_and_required_p_are_inverse(noise: Noise) -> None:
    for radius in [0.0, 0.01, 0.1, 0.3, 0.39] if noise.norm != "l0" else [0, 1, 2, 3]:
        if noise.norm == "linf":
            radius /= 28  # noqa: PLW2901
        p = noise.required_p(radius)
        if p < 1 - 1e-12:
            assert noise.radius(p) == pytest.approx(radius, rel=1e-9, abs=1e-12)
            assert noise.radius(p) >= radius * (1 - 1e-12)
        below = math.nextafter(p * (1 - 1e-9), 0)
        assert radius == 0 or noise.radius(below) < radius


@named
def test_nothing_is_certified_without_a_majority(noise: Noise) -> None:
    for p in [0.0, 0.1, 0.499999, 0.5]:
        assert noise.radius(p) == 0.0
    assert noise.radius(0.3, 0.3) == 0.0
    assert noise.radius(0.2, 0.4) == 0.0


@named
def test_radius_is_monotone(noise: Noise) -> None:
    radii = [noise.radius(p) for p in PS]
    assert radii == sorted(radii)
    uppers = [noise.radius(0.9, p) for p in [1e-6, 1e-3, 0.01, 0.05, 0.1]]
    assert uppers == sorted(uppers, reverse=True)
    for p in PS[2:]:
        assert noise.radius(p, 1 - p) == pytest.approx(noise.radius(p), rel=1e-6, abs=1e-12)


EXACT: dict[str, Callable[[Noise, mpmath.mpf, mpmath.mpf], mpmath.mpf]] = {
    "gaussian": lambda noise, p, q: noise.strength / 2 * (quantile(p) - quantile(q)) - noise.offset,  # type: ignore
    "uniform": lambda noise, p, q: noise.strength * (p - q) - noise.offset,  # type: ignore
    "laplace": lambda noise, p, q: noise.strength * max(-mpmath.log(1 - p + q), mpmath.log(p / q) / 2),
}


def quantile(p: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)


@pytest.mark.parametrize("noise", [noise for noise in CASES if noise.norm in ("l1", "l2")], ids=str)
def test_radius_is_never_above_the_exact_one(noise: Noise) -> None:
    """Against 50 digits, at one- and two-sided bounds: below, and by less than one part in 1e8."""
    mpmath.mp.dps = 50
    grid = torch.rand(300, generator=generator(0, "grid", "test", 0), dtype=torch.float64)
    pairs = [(p, None) for p in [*PS, *(0.5 + grid / 2).tolist()]]
    pairs += [(float(p), float(p * q)) for p, q in grid.view(150, 2)]
    for p, q in pairs:
        exact = max(0, EXACT[noise.name](noise, mpmath.mpf(p), 1 - mpmath.mpf(p) if q is None else mpmath.mpf(q)))
        ours = noise.radius(p, q)
        assert ours <= exact
        assert ours >= exact * (1 - mpmath.mpf("1e-8")) - mpmath.mpf("1e-14") * noise.strength


@named
def test_draws_follow_the_generator_and_keep_shapes(noise: Noise) -> None:
    x = torch.zeros(6, 3, 5)
    a, b = (noise.draw(x, generator(0, "x", "test", 0)) for _ in range(2))
    assert a.shape == x.shape
    assert a.dtype == torch.float32
    assert torch.equal(a, b)
    assert not torch.equal(a, noise.draw(x, generator(0, "x", "test", 1)))
    assert bool(torch.isfinite(a).all())
    assert not torch.equal(a[0], a[1]), "rows are independent"


@named
def test_strength_per_row(noise: Noise) -> None:
    """All rows equal gives the scalar's noise; a row's noise grows with its own strength only.

    On a grid rows take as many bits as they need, one after the other, so the rows behind the changed one differ too.
    """
    x = torch.zeros(8, 50)
    same = noise.draw(x, generator(0, "x", "test", 0), torch.full((8,), noise.strength))
    assert torch.allclose(same, noise.draw(x, generator(0, "x", "test", 0)), atol=1e-7)
    assert noise.with_strength(getattr(noise, noise.strength_name)) == noise
    mixed = torch.full((8,), noise.strength)
    mixed[3] = 0.95 if isinstance(noise, Ablation) else 3 * noise.strength
    changed = (noise.draw(x, generator(0, "x", "test", 0), mixed) != same).flatten(1).any(dim=1)
    if getattr(noise, "grid", None) is None:
        assert changed.tolist() == [row == 3 for row in range(8)]
    else:
        mixed[3] = noise.strength
        mixed[0] = 3 * noise.strength
        wide = noise.with_strength(3 * noise.strength).draw(x[:1], generator(0, "x", "test", 0))
        assert torch.equal(noise.draw(x, generator(0, "x", "test", 0), mixed)[:1], wide)


@named
@pytest.mark.parametrize("dim", [1, 21, 48])
def test_a_row_is_the_same_whatever_is_drawn_beside_it(noise: Noise, dim: int) -> None:
    """Rows 0 to 299 at once, one at a time, and in odd parts; another seed, input or purpose gives others."""
    x = (torch.rand(dim, generator=torch.Generator().manual_seed(0)) > 0.5).float()

    def rows(first: int, count: int, name: tuple[int, str, str] = (0, "x", "bound")) -> torch.Tensor:
        out = torch.full((count, dim), math.nan)
        noise.draw_rows(x, RowStream(*name), first, out)
        return out

    whole = rows(0, 300)
    assert bool(torch.isfinite(whole).all())
    assert torch.equal(torch.cat([rows(row, 1) for row in range(300)]), whole)
    cuts = [0, 1, 17, 20, 148, 149, 300]
    assert torch.equal(torch.cat([rows(a, b - a) for a, b in itertools.pairwise(cuts)]), whole)
    if dim > 1:
        assert len({tuple(row.tolist()) for row in whole}) > 100
        for other in ((1, "x", "bound"), (0, "y", "bound"), (0, "x", "choose")):
            assert not torch.equal(rows(0, 300, other), whole)


@named
@pytest.mark.parametrize("dim", [1, 48])
def test_rows_of_several_inputs_are_the_same_together(noise: Noise, dim: int) -> None:
    """Of other inputs, purposes and seeds, some twice, from other places on; so many that they are drawn in parts."""
    xs = [(torch.rand(dim, generator=torch.Generator().manual_seed(i)) > 0.5).float() for i in range(3)]
    names = [(0, "a", "bound"), (0, "b", "bound"), (1, "b", "choose")]
    parts = [(0, 5, 16), (1, 0, 1), (1, 1, 300), (2, 7, 6000), (0, 21, 130)]
    rows = JoinedRows(tuple((RowStream(*names[i]), first, count) for i, first, count in parts))
    out, wanted = torch.full((6447, dim), math.nan), []
    noise.draw_together([xs[i] for i, _, _ in parts], rows, out)
    for i, first, count in parts:
        wanted.append(torch.empty(count, dim))
        noise.draw_rows(xs[i], RowStream(*names[i]), first, wanted[-1])
    assert torch.equal(out, torch.cat(wanted))
