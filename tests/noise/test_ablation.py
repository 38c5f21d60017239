"""l0 by enumeration: every classifier on a tiny space, exact fractions."""

import itertools
import math
from fractions import Fraction

import pytest
import torch

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Ablation
from smoothcert.noise.ablation import KEEP_BITS, _regions


def exact_keep(noise: Ablation) -> Fraction:
    q = Fraction(noise._threshold, 2**KEEP_BITS)
    return q + (1 - q) / noise.values


def distance(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return sum(i != j for i, j in zip(a, b, strict=True))


@pytest.mark.parametrize(("keep", "values", "d"), [(0.8, 2, 3), (0.6, 2, 3), (0.9, 2, 3)])
def test_no_classifier_on_a_tiny_space_breaks_the_radius(keep: float, values: int, d: int) -> None:
    """All 256 classifiers on {0,1}^3: wherever the exact p_A certifies r, the class is the same up to distance r."""
    noise = Ablation(keep=keep, values=values)
    a = exact_keep(noise)
    b = (1 - a) / (values - 1)
    points = list(itertools.product(range(values), repeat=d))
    law = {(x, z): a ** (d - distance(x, z)) * b ** distance(x, z) for x in points for z in points}
    certified = 0
    for answers in itertools.product([0, 1], repeat=len(points)):
        inside = [z for z, answer in zip(points, answers, strict=True) if answer]
        mass = {x: sum((law[x, z] for z in inside), Fraction(0)) for x in points}
        for x in points:
            p_lower = float(mass[x])
            if Fraction(p_lower) > mass[x]:
                p_lower = math.nextafter(p_lower, 0)
            if p_lower >= 1:
                continue
            radius = noise.radius(p_lower)
            certified += radius >= 1
            assert all(mass[y] > Fraction(1, 2) for y in points if 0 < distance(x, y) <= radius)
    assert certified > 0


@pytest.mark.parametrize(("values", "d", "r"), [(2, 4, 2), (3, 4, 1), (3, 3, 3), (5, 3, 2)])
def test_regions_equal_lees_count_of_the_whole_space(values: int, d: int, r: int) -> None:
    """Lee et al. 2019, lemma 4: points at distance u from x and v from x', grouped by v - u. Here by enumeration."""
    noise = Ablation(keep=0.7, values=values)
    a = exact_keep(noise)
    b = (1 - a) / (values - 1)
    x, y = (0,) * d, (1,) * r + (0,) * (d - r)
    here: dict[int, Fraction] = {}
    for z in itertools.product(range(values), repeat=d):
        u, v = distance(x, z), distance(y, z)
        here[v - u] = here.get(v - u, Fraction(0)) + a ** (d - u) * b**u
    regions, whole = _regions(noise._threshold, values, r)
    masses = [Fraction(mass, whole) for mass, _ in regions]
    assert masses == [here.get(s, Fraction(0)) for s in range(r, -r - 1, -1)]
    assert sum(masses) == 1


def test_required_p_is_exact() -> None:
    noise = Ablation(keep=0.8, values=2)
    for r in (1, 2, 3, 6):
        p = noise.required_p(r)
        assert noise.radius(p) == r
        assert noise.radius(math.nextafter(p, 0)) == r - 1


def test_frequencies_of_the_draws() -> None:
    noise = Ablation(keep=0.8, values=4)
    x = torch.full((1, 40_000), 1 / 3)
    levels = (noise.draw(x, generator(0, "x", "test", 0)) * 3).round().long().flatten()
    counts = torch.bincount(levels, minlength=4).double() / 40_000
    expected = torch.tensor([0.2 / 3, 0.8, 0.2 / 3, 0.2 / 3], dtype=torch.float64)
    assert bool(((counts - expected).abs() < 5 * (expected * (1 - expected) / 40_000).sqrt()).all())


def test_kept_pixels_are_bit_identical() -> None:
    x = torch.arange(256, dtype=torch.float32)[None] / 255
    drawn = Ablation(keep=0.9).draw(x, generator(0, "x", "test", 0))
    assert int((drawn == x).sum()) > 200
    assert bool((drawn * 255 == (drawn * 255).round()).all())


def test_refusals() -> None:
    for keep in (0.0, 1.0, 0.001, math.nan):
        with pytest.raises(InputError, match="keep must lie between"):
            Ablation(keep=keep)
    with pytest.raises(InputError, match="too close to an end"):
        Ablation(keep=1 / 256 + 1e-9)
    with pytest.raises(InputError, match="values must be at least 2"):
        Ablation(keep=0.8, values=1)
    with pytest.raises(InputError, match="multiples of 1/255"):
        Ablation(keep=0.8).for_inputs(torch.tensor([[0.5, 0.1]]))
    with pytest.raises(InputError, match="multiples of 1/1"):
        Ablation(keep=0.8, values=2).for_inputs(torch.tensor([[2.0, 1.0]]))


def test_large_radii_do_not_exhaust_the_stack() -> None:
    assert Ablation(keep=0.999, values=2).required_p(1200) <= 1.0
