"""Two clouds that a line separates, a small network, and its training."""

from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.noise import Gaussian
from smoothcert.training import train
from smoothcert.training.objectives import Gaussian as Objective


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(96, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.arange(96) % 2).long()
    return x + 4 * y[:, None] - 2, y


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def trained(**options: Any) -> nn.Module:
    one = model()
    given = {"epochs": 3, "batch_size": 32, "on_epoch": lambda _: None} | options
    train(one, given.pop("data", data()), Objective(Gaussian(0.25)), **given)
    return one


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
