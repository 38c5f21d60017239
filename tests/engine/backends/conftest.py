"""A small network with batch-norm that has seen data, inputs far from its boundaries, and a cache for each test."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed

SHAPE, CLASSES = (1, 8, 8), 3


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(256, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Linear(32, CLASSES),
    )
    with torch.no_grad():
        for norm in model:
            if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
                norm.weight.uniform_(0.5, 1.5)
                norm.bias.uniform_(-0.5, 0.5)
        for _ in range(20):
            model(torch.rand(64, *SHAPE))
    return model.eval()


@pytest.fixture(scope="session")
def net() -> nn.Module:
    return network()


@pytest.fixture(scope="session")
def calibration() -> Tensor:
    return torch.rand(40, *SHAPE, generator=torch.Generator().manual_seed(7))


@pytest.fixture(scope="session")
def clear_inputs(net: nn.Module) -> Tensor:
    """Inputs that eager answers with more than 95% of the votes."""
    x = torch.rand(40, *SHAPE, generator=torch.Generator().manual_seed(3))
    found = Smoothed(net, CLASSES, Gaussian(0.1)).certify(x, Fixed(n=1000))
    clear = [row for row, certificate in enumerate(found) if max(certificate.votes or (0,)) > 950]
    assert len(clear) >= 4
    return x[clear[:4]]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
