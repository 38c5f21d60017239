import pytest
import torch
from torch import nn
from torch.nn import functional as F

from smoothcert.errors import InputError
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.noise.streams import generator
from smoothcert.objectives import Gaussian
from smoothcert.training import Epoch, train


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Two clouds that a line separates."""
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.arange(400) % 2).long()
    return x + 4 * y[:, None] - 2, y


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))


def test_the_objective_is_cross_entropy_on_a_noisy_copy() -> None:
    x, y = data()
    net, noise = model(), GaussianNoise(0.5)
    expected = F.cross_entropy(net(noise.draw(x, generator(0, "t", "t", 0))), y)
    assert torch.equal(Gaussian(noise).loss(net, x, y, generator(0, "t", "t", 0)), expected)


def test_training_learns_and_is_repeatable() -> None:
    x, y = data()
    nets, epochs = [model(), model()], list[Epoch]()
    for net in nets:
        train(net, (x, y), Gaussian(GaussianNoise(0.5)), epochs=5, seed=3, on_epoch=epochs.append)
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    assert epochs[4].loss < 0.1 < epochs[0].loss
    assert (epochs[4].number, epochs[4].epochs) == (5, 5)
    assert float((nets[0](x).argmax(1) == y).float().mean()) > 0.97
    assert not nets[0].training
    other = model()
    train(other, (x, y), Gaussian(GaussianNoise(0.5)), epochs=5, seed=4)
    assert not torch.equal(next(other.parameters()), next(nets[0].parameters()))


def test_divergence_and_bad_arguments_are_said() -> None:
    x, y = data()
    with pytest.raises(InputError, match="training has diverged, lower lr"):
        train(model(), (x * 1e20, y), Gaussian(GaussianNoise(0.5)), epochs=3, lr=1e30)
    with pytest.raises(InputError, match="400 inputs and 3 labels"):
        train(model(), (x, y[:3]), Gaussian(GaussianNoise(0.5)), epochs=1)
    with pytest.raises(InputError, match="must be positive"):
        train(model(), (x, y), Gaussian(GaussianNoise(0.5)), epochs=0)
