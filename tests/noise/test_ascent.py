"""The step of DDRS, by hand and by finite differences, in float64."""

import math

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.noise.ascent import CLAMP, ascend, searchable, soft_radii, unit_draws

NOISES = [Gaussian(0.5), Uniform(0.5)]
noises = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)


def net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def data(draws: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    chance = torch.Generator().manual_seed(1)
    x, units = (torch.randn(shape, generator=chance, dtype=torch.float64) for shape in ((2, 3), (2, draws, 3)))
    return x, units, torch.tensor([0.4, 0.7], dtype=torch.float64)


def test_one_step_by_hand() -> None:
    """Two classes, scores (s, -s) with s = x + sigma e: E_A = mean of the logistic function of 2s."""
    x, units = torch.tensor([[0.3]], dtype=torch.float64), torch.tensor([[[1.0], [-0.5]]], dtype=torch.float64)
    sigma, lr = 0.4, 0.1

    def phi(z: float) -> float:
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    shares = [1 / (1 + math.exp(-2 * (0.3 + sigma * e))) for e in (1.0, -0.5)]
    mean = sum(shares) / 2
    z = float(torch.special.ndtri(torch.tensor(mean, dtype=torch.float64)))
    slope = sum(2 * e * p * (1 - p) for e, p in zip((1.0, -0.5), shares, strict=True)) / 2  # dE_A / dsigma
    # R = sigma/2 (z - (-z)) = sigma z, because E_B = 1 - E_A.
    expected = sigma + lr * (z + sigma * slope / phi(z))
    found = ascend(
        lambda at: torch.cat([at, -at], dim=1),
        Gaussian(0.4),
        x,
        torch.tensor([sigma], dtype=torch.float64),
        units,
        lr=lr,
    )
    assert found.item() == pytest.approx(expected, rel=1e-12)


@noises
def test_the_gradient_is_that_of_finite_differences(noise: Noise) -> None:
    model, (x, units, sigma) = net(), data()
    label = torch.tensor([0, 2])

    def radii(at: Tensor) -> Tensor:
        noisy = x[:, None] + at[:, None, None] * units
        return soft_radii(noise, model(noisy.flatten(0, 1)).view(2, 4, 3), at, label).detach()

    h = 1e-6
    numeric = (radii(sigma + h) - radii(sigma - h)) / (2 * h)
    gradient = ascend(model, noise, x, sigma, units, lr=1.0, label=label) - sigma
    torch.testing.assert_close(gradient, numeric, rtol=1e-7, atol=1e-9)


@noises
def test_inputs_do_not_meet_and_nothing_else_is_touched(noise: Noise) -> None:
    model, (x, units, sigma) = net(), data()
    both = ascend(model, noise, x, sigma, units, lr=0.1)
    alone = [ascend(model, noise, x[i : i + 1], sigma[i : i + 1], units[i : i + 1], lr=0.1) for i in range(2)]
    torch.testing.assert_close(both, torch.cat(alone), rtol=1e-12, atol=0)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not both.requires_grad
    with torch.inference_mode():
        assert torch.equal(ascend(model, noise, x, sigma, units, lr=0.1), both)


def test_sure_scores_are_clamped_as_in_the_paper() -> None:
    scores = torch.tensor([[[40.0, 0.0, 0.0]]], dtype=torch.float64)
    z = float(torch.special.ndtri(torch.tensor(1 - CLAMP, dtype=torch.float64)))
    label, sigma = torch.tensor([0]), torch.tensor([0.5], dtype=torch.float64)
    assert soft_radii(Gaussian(1.0), scores, sigma, label).item() == pytest.approx(0.25 * 2 * z)
    assert soft_radii(Uniform(1.0), scores, sigma, label).item() == pytest.approx(0.5)
    behind = soft_radii(Gaussian(1.0), scores, sigma, torch.tensor([1]))
    assert behind.item() == pytest.approx(-0.25 * 2 * z), (
        "a class that is behind has a negative radius, not its rival's"
    )


def test_noise_that_is_chosen_with() -> None:
    chosen = searchable(Gaussian(0.25, grid=1 / 255, dim=3))
    assert isinstance(chosen, Gaussian)
    assert (chosen.grid, chosen.sigma, chosen.dim) == (None, 0.25, 3)
    x = torch.rand(3)
    units = unit_draws(chosen, x, 5, generator(0, "t", "sigma", 0))
    same = chosen.draw(x.expand(5, 3), generator(0, "t", "sigma", 0)) - x
    torch.testing.assert_close(0.25 * units, same, rtol=0, atol=1e-6)
    with pytest.raises(InputError, match="ablation noise cannot be chosen per input"):
        searchable(Ablation(0.8))
    with pytest.raises(InputError, match="laplace noise has no differentiable radius; take the method bracket"):
        soft_radii(Laplace(0.5), torch.zeros(1, 1, 2), torch.ones(1), torch.zeros(1, dtype=torch.long))


def test_a_model_without_gradients_is_said() -> None:
    x, units, sigma = data()
    with pytest.raises(InputError, match="scores without gradients, which the method ddrs needs; take bracket"):
        ascend(lambda at: at.detach().sign(), Gaussian(0.5), x, sigma, units, lr=0.1)
