"""A classifier that looks at the rounding of x + noise: float32 certificates fall to it, those on a grid do not.

The classifier answers 1 where a noisy value cannot come from a, whatever the noise, because float32 would have rounded
the sum to another value. It never says 1 around a, and mostly does around b. A certificate at a or b with a radius
beyond their distance is false if the answers at a and b differ.
"""

import numpy as np
import pytest
import torch
from torch import Tensor

from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed

SIGMA, GRID = 0.25, 1 / 255


def reachable(noisy: Tensor, a: Tensor) -> Tensor:
    """Whether float32 a + t is exactly `noisy` for some float32 t: the one nearest to the difference, or beside."""
    t = (noisy.double() - a.double()).float()
    beside = [torch.nextafter(t, torch.full_like(t, end)) for end in (-torch.inf, torch.inf)]
    return torch.stack([a + u == noisy for u in (t, *beside)]).any(dim=0)


def levels(*values: int) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float32) / np.float32(255))


def certificates_are_false(noise: Gaussian, a: Tensor, b: Tensor, n: int) -> bool:
    def answers(x: Tensor) -> Tensor:
        seen = (~reachable(x, a)).any(dim=1)
        return torch.stack([~seen, seen], dim=1).float()

    at_a, at_b = Smoothed(answers, 2, noise).certify(torch.stack([a, b]), Fixed(n=n))
    distance = float((a.double() - b.double()).norm())
    return at_a.label != at_b.label and max(at_a.radius, at_b.radius) > distance * (1 + 1e-6)


CASES = [
    pytest.param(levels(200), levels(0), 100_000, id="1 dimension"),
    pytest.param(levels(*[6] * 784), levels(*[0] * 784), 4_000, id="784 dimensions"),
    pytest.param(levels(*[6, 0, 250, 0] * 196), levels(*[0, 0, 250, 6] * 196), 4_000, id="784 dimensions, image"),
]


@pytest.mark.parametrize(("a", "b", "n"), CASES)
def test_float32_sampling_certifies_what_is_false(a: Tensor, b: Tensor, n: int) -> None:
    assert certificates_are_false(Gaussian(SIGMA), a, b, n)


@pytest.mark.parametrize(("a", "b", "n"), CASES)
def test_grid_sampling_does_not(a: Tensor, b: Tensor, n: int) -> None:
    assert not certificates_are_false(Gaussian(SIGMA, grid=GRID), a, b, n)


def test_the_attack_is_as_strong_as_statistics_say() -> None:
    """P(1|a) = 0 exactly and P(1|b) = .71 in float32; on the grid the two laws overlap as the theorem says."""
    a, b = levels(200), levels(0)
    shares = {}
    for name, noise in (("float32", Gaussian(SIGMA)), ("grid", Gaussian(SIGMA, grid=GRID))):
        for where, x in (("a", a), ("b", b)):
            noisy = noise.draw(x.expand(100_000, 1), torch.Generator().manual_seed(0))
            shares[name, where] = float((~reachable(noisy, a)).float().mean())
    assert shares["float32", "a"] == 0
    assert shares["float32", "b"] == pytest.approx(0.71, abs=0.02)
    # Total variation of the two real Gaussians bounds how far any set's mass can differ: 2 Phi(d / 2 sigma) - 1 = .883.
    assert 0 < shares["grid", "a"] < 1
    assert abs(shares["grid", "b"] - shares["grid", "a"]) < 0.883
