import math

import pytest
import torch
from scipy import stats

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Gaussian


def test_draws_are_normal() -> None:
    noise = Gaussian(sigma=0.3)
    draws = noise.draw(torch.full((1, 20_000), 0.7), generator(0, "x", "test", 0)).double().numpy().ravel()
    assert stats.kstest((draws - 0.7) / 0.3, "norm").pvalue > 1e-3


def test_linf_is_l2_over_sqrt_d() -> None:
    l2, linf = Gaussian(0.5), Gaussian(0.5, norm="linf").for_inputs(torch.zeros(2, 3, 32, 32))
    assert linf.radius(0.99) == pytest.approx(l2.radius(0.99) / math.sqrt(3072), rel=1e-12)
    with pytest.raises(InputError, match="depend on the dimension"):
        Gaussian(0.5, norm="linf").radius(0.9)
    with pytest.raises(InputError, match="784 but the inputs have 3072"):
        Gaussian(0.5, norm="linf", dim=784).for_inputs(torch.zeros(1, 3, 32, 32))


def test_soft_radius_is_the_radius_and_its_gradient_is_right() -> None:
    noise = Gaussian(0.5)
    top, second = (torch.tensor([p], dtype=torch.float64, requires_grad=True) for p in (0.9, 0.05))
    assert float(noise.soft_radius(top, second).detach()) == pytest.approx(noise.radius(0.9, 0.05), rel=1e-9)
    assert torch.autograd.gradcheck(noise.soft_radius, (top, second))
    strengths = torch.tensor([1.0], dtype=torch.float64)
    assert float(noise.soft_radius(top, second, strengths).detach()) == pytest.approx(
        2 * noise.radius(0.9, 0.05), rel=1e-9
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_soft_radius_is_finite_at_saturation(dtype: torch.dtype) -> None:
    top = torch.tensor([1.0, 1 - 1e-9, 0.5], dtype=dtype, requires_grad=True)
    second = torch.tensor([0.0, 1e-30, 0.5], dtype=dtype, requires_grad=True)
    radius = Gaussian(0.5).soft_radius(top, second)
    radius.sum().backward()  # type: ignore[no-untyped-call]
    for value in (radius, top.grad, second.grad):
        assert value is not None
        assert bool(torch.isfinite(value).all())


@pytest.mark.parametrize("sigma", [0.0, -0.25, math.nan, math.inf, True, "0.5"])
def test_sigma_is_refused_at_the_door(sigma: float) -> None:
    with pytest.raises(InputError, match="sigma must be a positive finite number, got"):
        Gaussian(sigma=sigma)


def test_other_norms_are_refused() -> None:
    with pytest.raises(InputError, match="must be 'l2' or 'linf'"):
        Gaussian(0.5, norm="l1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="radius must be non-negative"):
        Gaussian(0.5).required_p(-1.0)
