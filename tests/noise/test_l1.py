import torch
from scipy import stats

from smoothcert.core.randomness import generator
from smoothcert.noise import Laplace, Uniform


def test_uniform_draws() -> None:
    draws = Uniform(0.4).draw(torch.full((1, 20_000), 0.5), generator(0, "x", "test", 0)).double().numpy().ravel()
    assert stats.kstest(draws, stats.uniform(0.1, 0.8).cdf).pvalue > 1e-3


def test_laplace_draws() -> None:
    draws = Laplace(0.4).draw(torch.full((1, 20_000), 0.5), generator(0, "x", "test", 0)).double().numpy().ravel()
    assert stats.kstest(draws, stats.laplace(0.5, 0.4).cdf).pvalue > 1e-3


def test_uniform_soft_radius() -> None:
    noise = Uniform(0.4)
    top, second = (torch.tensor([p], dtype=torch.float64, requires_grad=True) for p in (0.9, 0.05))
    assert abs(float(noise.soft_radius(top, second).detach()) - noise.radius(0.9, 0.05)) < 1e-12
    assert torch.autograd.gradcheck(noise.soft_radius, (top, second))
