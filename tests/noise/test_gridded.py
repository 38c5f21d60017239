"""Noise on a grid as the engine uses it: which inputs are on it, what the others pay, and that certificates hold."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian, Noise, Uniform
from smoothcert.noise.gridded import GriddedNoise
from smoothcert.procedures import Fixed, Sequential

UNLIKELY = 1e-6
PIXELS = torch.from_numpy(np.arange(256, dtype=np.uint8).astype(np.float32) / np.float32(255))
NOISES: list[GriddedNoise] = [Gaussian(0.25, grid=1 / 255), Uniform(0.4, grid=1 / 255)]
both = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)


@both
def test_every_8_bit_value_is_on_the_grid(noise: GriddedNoise) -> None:
    assert noise.at(PIXELS).offset == 0
    assert noise.at(PIXELS) == noise
    for pixel in PIXELS:
        for beside in (0.0, 1.0):
            other = torch.nextafter(pixel, torch.tensor(beside))
            assert (noise.at(other[None]).offset > 0) == (other != pixel)


@pytest.mark.parametrize("levels", [1, 2, 17, 255, 1000, 65535])
def test_what_the_model_sees_is_the_float_of_the_grid_point(levels: int) -> None:
    """The same floats as numpy's division of whole numbers, negative ones too; and those are on the grid."""
    noise = Gaussian(2.5 / levels, grid=1 / levels)
    named = torch.from_numpy(np.arange(levels + 1, dtype=np.float32)[:: max(1, levels // 100)] / np.float32(levels))
    drawn = noise.draw(named.expand(64, -1), generator(0, "x", "test", 0))
    steps = np.rint(drawn.double().numpy() * levels)
    assert np.array_equal(drawn.numpy(), steps.astype(np.float32) / np.float32(levels))
    assert noise.at(drawn).offset == 0
    assert len(np.unique(steps - np.rint(named.double().numpy() * levels))) > 12


@both
def test_draws_shift_with_the_input(noise: GriddedNoise) -> None:
    """From the same bits, noise is the same whole number of steps wherever the input is: nothing of it can be seen."""
    streams = [generator(0, "x", "test", 3) for _ in range(2)]
    low, high = (noise.draw(torch.full((9, 50), float(PIXELS[i])), g) for i, g in zip((0, 255), streams, strict=True))
    assert torch.equal((low * 255).round() + 255, (high * 255).round())


@both
def test_an_expanded_input_is_drawn_like_its_copies(noise: GriddedNoise) -> None:
    x = torch.rand(3, 4, 5)
    one, many = (
        noise.draw(rows, generator(0, "x", "b", 7)) for rows in (x.expand(128, 3, 4, 5), x.repeat(128, 1, 1, 1))
    )
    assert torch.equal(one, many)
    rounded = (x * 255).round() / 255
    assert torch.equal(one, noise.draw(rounded.expand(128, 3, 4, 5), generator(0, "x", "b", 7)))


@pytest.mark.parametrize(("noise", "order"), list(zip(NOISES, (2, 1), strict=True)), ids=("gaussian", "uniform"))
def test_offsets_are_at_least_the_distance_and_few(noise: GriddedNoise, order: int) -> None:
    dim, seen = 48, set()
    largest = dim ** (1 / order) / 510
    for seed, scale in itertools.product(range(20), (1e-6, 1e-3, 0.3, 1.0)):
        pixels = PIXELS[torch.randint(256, (dim,), generator=torch.Generator().manual_seed(seed))]
        gap = scale * (torch.rand(dim, generator=torch.Generator().manual_seed(seed + 100)) - 0.5) / 255
        x = pixels + gap
        offset = noise.at(x.view(3, 4, 4)).offset
        gaps = (x.double().numpy() - np.rint(x.double().numpy() * 255) / 255) * (x != pixels).numpy()
        distance = float(np.linalg.norm(gaps, ord=order))
        assert distance <= offset <= distance + largest / 16 * (1 + 1e-9)
        seen.add(offset)
    assert len(seen) <= 17
    worst = noise.at((torch.arange(dim) + 0.5) / 255).offset
    assert largest * (1 - 1e-6) <= worst <= largest * (17 / 16 + 1e-9)


@both
def test_the_offset_is_subtracted(noise: GriddedNoise) -> None:
    beside = dataclasses.replace(noise, offset=0.05)
    assert beside.radius(0.99) == pytest.approx(noise.radius(0.99) - 0.05, rel=1e-9)
    assert beside.required_p(0.1) == pytest.approx(noise.required_p(0.15), rel=1e-9)
    assert beside.radius(noise.required_p(0.049)) == 0


def test_linf_radii_pay_in_l2() -> None:
    noise = Gaussian(0.5, norm="linf", dim=784, grid=1 / 255, offset=0.03)
    l2 = Gaussian(0.5, grid=1 / 255)
    assert noise.radius(0.99) == pytest.approx((l2.radius(0.99) - 0.03) / 28, rel=1e-9)
    assert noise.required_p(0.01) == pytest.approx(l2.required_p(0.28 + 0.03), rel=1e-9)


def test_the_strength_is_not_that_of_float32() -> None:
    assert Gaussian(0.1).strength == float(np.float32(0.1)) != 0.1
    assert Gaussian(0.1, grid=1 / 255).strength == 0.1
    assert Uniform(0.1, grid=1 / 255).strength == 0.1


@pytest.mark.parametrize("noise", [Gaussian(1e-300, grid=1 / 255), Uniform(1e-300, grid=1 / 255)], ids=str)
def test_noise_far_below_a_step_moves_nothing(noise: GriddedNoise) -> None:
    assert torch.equal(noise.draw(PIXELS.expand(128, -1), generator(0, "x", "test", 0)), PIXELS.expand(128, -1))


def test_descriptions() -> None:
    assert Gaussian(0.25).describe() == {
        "name": "gaussian", "sigma": 0.25, "norm": "l2", "dim": None, "arithmetic": "float32",
    }  # fmt: skip
    assert Uniform(0.4, grid=1 / 255).describe() == {
        "name": "uniform", "half_width": 0.4, "norm": "l1", "grid": 1 / 255, "arithmetic": "grid",
    }  # fmt: skip
    assert Uniform(0.4, grid=1 / 255, offset=0.5).describe()["offset"] == 0.5


@pytest.mark.parametrize("grid", [0.3, 0, -1 / 255, 1 / 70_000, math.nan, math.inf, True, 2, "1/255"])
def test_grids_that_cannot_be(grid: float) -> None:
    with pytest.raises(InputError, match="grid must be one over a whole number up to 65535, such as 1/255"):
        Gaussian(0.25, grid=grid)


def test_refusals() -> None:
    assert Gaussian(0.25, grid=0.00392156863) == Gaussian(0.25, grid=1 / 255)
    with pytest.raises(InputError, match="sigma must be smaller for a grid of 1/255, got 300; take a coarser grid"):
        Gaussian(300, grid=1 / 255)
    for sigma in (1e300, 1e308):
        with pytest.raises(InputError, match="sigma must be smaller for a grid"):
            Gaussian(sigma, grid=1 / 255)
    with pytest.raises(InputError, match=r"inputs must lie within 4112\.06"):
        NOISES[0].draw(torch.full((1, 2), math.nan), torch.Generator())
    with pytest.raises(InputError, match="half_width must be smaller for a grid of 1/65535"):
        Uniform(5.0, grid=1 / 65535)
    for offset in (-0.1, math.nan, math.inf):
        with pytest.raises(InputError, match="offset must be"):
            Gaussian(0.25, grid=1 / 255, offset=offset)
    with pytest.raises(InputError, match="offset must be"):
        Gaussian(0.25, offset=0.1)
    far = torch.tensor([[0.0, 5000.0]])
    for refused in (NOISES[0].for_inputs, lambda x: NOISES[0].draw(x, torch.Generator())):
        with pytest.raises(InputError, match=r"inputs must lie within 4112\.06 of 0 for a grid of 1/255"):
            refused(far)


def certified(
    noise: GriddedNoise, x: Tensor, cut: float, seed: int, procedure: Fixed | Sequential
) -> tuple[int, float]:
    """The answer for the half space above `cut` along the first axis; its rounding to the grid moves it nowhere."""

    def scores(noisy: Tensor) -> Tensor:
        return torch.stack([noisy[:, 0] - cut, cut - noisy[:, 0]], dim=1)

    certificate = Smoothed(scores, 2, noise, seed=seed, workers=1).certify(x, procedure)[0]
    return certificate.label, certificate.radius


@both
@pytest.mark.parametrize("on_grid", [True, False])
def test_certificates_are_false_no_more_often_than_alpha(noise: GriddedNoise, on_grid: bool) -> None:
    """A plane halfway between grid points is kept by rounding, so p_A at a grid point and its distance are exact."""
    alpha, count, wrong, most = 0.1, 400, 0, 0.0
    for seed in range(count):
        steps = torch.randint(100, 150, (3,), generator=torch.Generator().manual_seed(seed)).double()
        margin = (10, 25, 40)[seed % 3]
        cut = (float(steps[0]) - margin + 0.5) / 255
        if not on_grid:
            steps += torch.rand(3, generator=torch.Generator().manual_seed(seed)).double() - 0.5
        x = (steps / 255).float() if not on_grid else PIXELS[steps.long()]
        label, radius = certified(noise, x, cut, seed, Fixed(n0=20, n=100, alpha=alpha))
        distance = float(x[0].double()) - cut
        wrong += label == 1 or radius > distance * (1 + 1e-6)
        most = max(most, radius / distance)
    assert stats.binom.sf(wrong - 1, count, alpha) > UNLIKELY
    assert most > 0.8, "nearly all of the distance can be shown"
    assert not on_grid or wrong > count * alpha / 4, "the bound is exact on the grid, so some certificates are false"


def test_an_input_beside_the_grid_pays_for_the_way() -> None:
    x = torch.stack([PIXELS[100:104], PIXELS[100:104] + 0.4 / 255])
    smoothed = Smoothed(lambda v: torch.stack([v[:, 0], 0 * v[:, 0]], dim=1), 2, Gaussian(0.25, grid=1 / 255))
    on, beside = smoothed.certify(x, Fixed(n=1000))
    assert "offset" not in on.noise
    assert 0.8 / 255 <= beside.noise["offset"] <= 1.01 / 255
    for certificate in (on, beside):
        assert Noise.from_description(certificate.noise).radius(certificate.p_lower) == certificate.radius
    on, beside = smoothed.certify(x, Sequential(radius=(0.1, 0.3), n=2000))
    assert beside.p_lower == 0 or beside.p_lower == Noise.from_description(beside.noise).required_p(beside.radius)


def test_certificates_are_replayed() -> None:
    """The same votes whatever the batch size and the company."""
    noise = Gaussian(0.25, grid=1 / 255)
    x = PIXELS[torch.randint(256, (5, 3, 4, 4), generator=torch.Generator().manual_seed(0))]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 5, bias=False))
    alone = [Smoothed(model, 5, noise, batch_size=128).certify(row[None], Fixed(n=1000))[0].p_lower for row in x]
    for batch_size in (50, 1024):
        together = Smoothed(model, 5, noise, batch_size=batch_size).certify(x, Fixed(n=1000))
        assert [certificate.p_lower for certificate in together] == alone
