"""What is read from a record has the geometry of the noise that wrote it, to the last bit."""

import itertools
import math

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.noise import NOISES, Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.stats.geometry import STRENGTHS, RecordedGeometry

CASES: list[Noise] = [
    Gaussian(0.25), Gaussian(0.12), Gaussian(1), Gaussian(0.5, "linf", 784), Gaussian(0.3, "linf", 3072),
    Gaussian(0.3, grid=1 / 255), Gaussian(0.3, grid=1 / 255, offset=0.01234), Gaussian(1, grid=1 / 7, offset=0.5),
    Gaussian(0.3, "linf", 3072, grid=1 / 255, offset=0.1), Uniform(0.4, grid=1 / 255), Uniform(0.3, grid=1, offset=0.1),
    Uniform(0.4), Uniform(1.7320508), Laplace(0.3), Laplace(2.0),
]  # fmt: skip
PS = [
    0.0,
    1e-9,
    0.1,
    0.3,
    0.4999,
    0.5,
    0.5 + 1e-15,
    0.500001,
    *np.linspace(0.51, 0.99, 23),
    0.9999,
    1 - 1e-9,
    1 - 1e-15,
]


@pytest.mark.parametrize("noise", CASES, ids=str)
def test_radius_and_required_p_are_the_noise_s_own(noise: Noise) -> None:
    geometry = RecordedGeometry.of(noise.describe())
    assert geometry.norm == noise.norm
    for p in map(float, PS):
        assert geometry.radius(p) == noise.radius(p)
    for p, q in itertools.product(map(float, PS), repeat=2):
        if q > 0:
            assert geometry.radius(p, q) == noise.radius(p, q), (p, q)
    for radius in np.linspace(0, 3, 61):
        assert geometry.required_p(float(radius)) == noise.required_p(float(radius))


def test_every_noise_but_ablation_has_its_formula() -> None:
    assert set(STRENGTHS) == set(NOISES) - {"ablation"}
    assert {name: NOISES[name].strength_name for name in STRENGTHS} == STRENGTHS


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (Ablation().describe(), "noise 'ablation' cannot be computed from a record"),
        ({}, "noise None cannot be computed"),
        ({"name": "gaussian", "sigma": -1, "norm": "l2"}, "it was damaged"),
        ({"name": "gaussian", "sigma": True, "norm": "l2"}, "it was damaged"),
        ({"name": "gaussian", "sigma": 10**400, "norm": "l2"}, "it was damaged"),
        ({"name": "gaussian", "sigma": 1e-60, "norm": "l2"}, "it was damaged"),
        ({"name": "uniform", "half_width": 1.0, "norm": "l2"}, "it was damaged"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"grid": 0.3}, "it was damaged"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"grid": None}, "it was damaged"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"grid": "1/255"}, "it was damaged"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"arithmetic": "float32"}, "it was damaged"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"offset": -0.1}, "it was damaged"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"offset": True}, "it was damaged"),
        (Uniform(0.5, grid=1 / 255).describe() | {"offset": math.nan}, "it was damaged"),
        (Gaussian(0.5).describe() | {"arithmetic": "grid"}, "it was damaged"),
        (Gaussian(0.5).describe() | {"offset": 0.1}, "it was damaged"),
        (Laplace(0.5).describe() | {"grid": 1 / 255, "arithmetic": "grid"}, "it was damaged"),
        ({"name": "gaussian", "sigma": 1.0, "norm": "linf", "dim": None}, "depend on the dimension"),
    ],
)
def test_what_cannot_be_is_refused(description: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        RecordedGeometry.of(description)


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
def test_impossible_radii_are_refused(radius: float) -> None:
    with pytest.raises(InputError, match="radius must be"):
        RecordedGeometry("laplace", 1.0, "l1").required_p(radius)
