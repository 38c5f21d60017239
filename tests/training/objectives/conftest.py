from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn


class Prescribed(nn.Module):
    """Answers call k with the k-th list of rows of probabilities, as scores log p, whatever the input is."""

    def __init__(self, *answers: list[list[float]]) -> None:
        super().__init__()
        self.answers = [torch.tensor(rows, dtype=torch.float64).log() for rows in answers]
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        scores = self.answers[self.calls]
        self.calls += 1
        assert len(scores) == len(x)
        return scores


class Spy(nn.Module):
    """A small net that keeps what it was given, and in which mode."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(*parts)
        self.seen: list[Tensor] = []
        self.modes: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        self.modes.append(self.training)
        return self.net(x)


@pytest.fixture
def prescribed() -> type[Prescribed]:
    return Prescribed


@pytest.fixture
def spy() -> Callable[..., Spy]:
    def make(*extra: nn.Module) -> Spy:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return Spy(nn.Linear(4, 8), *extra, nn.Tanh(), nn.Linear(8, 3))

    return make


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    """Five inputs in the middle of the box, with labels."""
    x = 0.3 + 0.4 * torch.rand(5, 4, generator=torch.Generator().manual_seed(1))
    return x, torch.tensor([0, 1, 2, 0, 1])
