"""A noise is made again from its description in a record, and from nothing else."""

import json
import math
import subprocess
import sys

import pytest

from smoothcert.core.errors import InputError
from smoothcert.noise import NOISES, Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.noise.base import noise_kind

CASES: list[Noise] = [
    Gaussian(0.25), Gaussian(0.12), Gaussian(1), Gaussian(0.5, "linf", 784), Gaussian(0.3, "linf", 3072),
    Gaussian(0.3, grid=1 / 255), Gaussian(0.3, grid=1 / 255, offset=0.01234), Gaussian(1, grid=1 / 7, offset=0.5),
    Gaussian(0.3, "linf", 3072, grid=1 / 255, offset=0.1), Uniform(0.4, grid=1 / 255), Uniform(0.3, grid=1, offset=0.1),
    Uniform(0.4), Uniform(1.7320508), Laplace(0.3), Laplace(2.0), Ablation(), Ablation(0.9, 17),
]  # fmt: skip


def test_every_noise_is_here() -> None:
    assert {type(noise) for noise in CASES} == set(NOISES.values())


@pytest.mark.parametrize("noise", CASES, ids=str)
def test_a_noise_comes_back_from_json(noise: Noise) -> None:
    recorded = json.loads(json.dumps(noise.describe()))
    again = Noise.from_description(recorded)
    assert (type(again), again) == (type(noise), noise)
    assert json.dumps(again.describe()) == json.dumps(noise.describe())
    assert (again.norm, again.strength) == (noise.norm, noise.strength)
    assert noise_kind(recorded) is type(noise)


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (None, "described by its name"),
        ({}, "described by its name"),
        ({"name": None}, "no noise None"),
        ({"name": "pink"}, "no noise 'pink'.*--plugin"),
        ({"name": "gausian"}, "did you mean 'gaussian'"),
        ({"name": "gaussian"}, "sigma"),
        (Gaussian(0.5).describe() | {"sigma": -1}, "sigma must be a positive finite number, got -1"),
        (Gaussian(0.5).describe() | {"sigma": True}, "sigma must be a number, got True"),
        (Gaussian(0.5).describe() | {"sigma": "0.5"}, "sigma must be a number, got '0.5'"),
        (Gaussian(0.5).describe() | {"sigma": {0.5}}, "sigma must be a number, got {0.5}"),
        (Gaussian(0.5).describe() | {"sigma": math.nan}, "sigma must be a number, got nan"),
        (Gaussian(0.5).describe() | {"sigma": 1e-60}, "sigma must be a number that float32 can hold"),
        (Gaussian(0.5).describe() | {"sigma": 1e60}, "sigma must be a number that float32 can hold"),
        (Gaussian(0.5).describe() | {"sigma": 10**400}, "describes no noise|sigma must be"),
        (Gaussian(0.5).describe() | {"dim": -4}, "dim must be the number of coordinates"),
        (Gaussian(0.5).describe() | {"dim": 4.0}, "dim must be a whole number"),
        (Gaussian(0.5).describe() | {"norm": "l1"}, "must be one of 'l2', 'linf'"),
        (Gaussian(0.5).describe() | {"colour": "pink"}, "colour is 'pink', not None"),
        ({"name": "gaussian", "sigma": 0.5, "norm": "l2", "dim": None}, "arithmetic is None, not 'float32'"),
        (Uniform(1.0).describe() | {"norm": "l2"}, "norm is 'l2', not 'l1'"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"grid": 0.3}, "grid must be one over a whole number"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"grid": 0.00392156863}, "grid is 0.00392156863, not"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"grid": None}, "describes no noise"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"grid": "1/255"}, "grid must be a number"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"arithmetic": "float32"}, "arithmetic is 'float32', not 'grid'"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"offset": -0.1}, "offset must be 0, or a distance"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"offset": True}, "offset must be a number"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"offset": 0.0}, "offset is 0.0, not None"),
        (Gaussian(0.5, grid=1 / 255).describe() | {"sigma": 300.0}, "sigma must be smaller for a grid of 1/255"),
        (Uniform(0.5, grid=1 / 255).describe() | {"offset": math.nan}, "offset must be a number"),
        (Gaussian(0.5).describe() | {"arithmetic": "grid"}, "arithmetic is 'grid', not 'float32'"),
        (Gaussian(0.5).describe() | {"offset": 0.1}, "offset must be 0, or a distance"),
        (Laplace(0.5).describe() | {"grid": 1 / 255, "arithmetic": "grid"}, "arithmetic is 'grid', not 'float32'"),
        (Ablation().describe() | {"values": 1}, "values must be at least 2"),
        (Ablation().describe() | {"values": 2**25}, "values must be at least 2 and at most"),
        (Ablation().describe() | {"norm": "l1"}, "norm is 'l1', not 'l0'"),
        (Ablation().describe() | {"keep": 0.5 + 1e-9, "values": 2}, "too close to an end"),
        (Ablation().describe() | {"keep": math.nan}, "keep must be a number"),
        ({"name": "ablation"}, "arithmetic is None"),
    ],
    ids=repr,
)
def test_what_describes_no_noise_is_refused(description: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Noise.from_description(description)


def test_a_noise_of_unknown_name_has_no_kind() -> None:
    assert noise_kind({"name": "gaussian"}) is Gaussian
    for unknown in ({"name": "pink"}, {"name": ["gaussian"]}, {}, None, "gaussian"):
        assert noise_kind(unknown) is None


@pytest.mark.parametrize("radius", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("noise", [Gaussian(1.0), Uniform(1.0), Laplace(1.0), Ablation()], ids=lambda n: n.name)
def test_impossible_radii_are_refused(noise: Noise, radius: float) -> None:
    with pytest.raises(InputError, match="radius must be non-negative and finite"):
        noise.required_p(radius)


@pytest.mark.parametrize(
    ("noise", "options"),
    [
        (Gaussian(0.5, dim=784), {"norm": "l2", "grid": "off"}),
        (Gaussian(0.5, "linf", 784, grid=1 / 255, offset=0.1), {"norm": "linf", "grid": 255}),
        (Uniform(0.5, grid=1 / 16), {"grid": 16}),
        (Laplace(0.5), {}),
        (Ablation(0.9, 17), {"values": 17}),
    ],
    ids=str,
)
def test_options_of_the_command_line(noise: Noise, options: dict) -> None:
    assert noise.options() == options


@pytest.mark.parametrize("noise", CASES, ids=str)
def test_a_noise_without_its_grid(noise: Noise) -> None:
    bare = noise.gridless()
    assert bare.levels is None
    assert bare.describe()["arithmetic"] == "float32"
    assert (bare == noise) == (noise.levels is None)
    assert bare.with_strength(0.5).norm == noise.norm


def test_describing_and_radii_need_no_torch() -> None:
    code = (
        "import sys; from smoothcert.noise import Noise, Gaussian, Ablation\n"
        "for noise in (Gaussian(0.5, grid=1 / 255), Ablation()):\n"
        "    again = Noise.from_description(noise.describe())\n"
        "    again.radius(0.9), again.radius(0.9, 0.05), again.required_p(1)\n"
        "sys.exit('torch' in sys.modules or 'mpmath' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
