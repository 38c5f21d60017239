import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Ablation
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training.objectives import PGD, SmoothMix

NOISE = GaussianNoise(0.25)
STILL = PGD(None, 1, 0.0)
Batch = tuple[Tensor, Tensor]


def seed() -> torch.Generator:
    return generator(0, "test", "test", 0)


def mixing(x: Tensor, draws: int = 2) -> Tensor:
    """The u that come after the noise: in (0, 1/2]."""
    random = seed()
    NOISE.draw(x.repeat_interleave(draws, dim=0), random)
    return (1 - torch.rand(len(x), generator=random, dtype=x.dtype)) / 2


class Answers(nn.Module):
    """One answer per call, for all rows; the gradient with respect to the input is zero."""

    def __init__(self, *calls: list[list[float]]) -> None:
        super().__init__()
        self.calls = [torch.tensor(rows, dtype=torch.float64).log() for rows in calls]

    def forward(self, x: Tensor) -> Tensor:
        return self.calls.pop(0) + 0 * x.sum()


def test_the_terms_are_the_papers() -> None:
    """Two inputs, two copies, two classes: the first is right, the second wrong and not mixed."""
    clean = [[0.8, 0.2], [0.6, 0.4], [0.4, 0.6], [0.2, 0.8]]  # means (.7, .3) and (.3, .7)
    mixed = [[0.5, 0.5], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]
    x, y = torch.full((2, 4), 0.5, dtype=torch.float64), torch.tensor([0, 0])
    terms = SmoothMix(NOISE, STILL, eta=5).terms(Answers(clean, clean, mixed), x, y, seed())
    u = float(mixing(x)[0])
    t = [(1 - u) * 0.7 + u / 2, (1 - u) * 0.3 + u / 2]
    divergences = [sum(a * math.log(a / b) for a, b in zip(t, row, strict=True)) for row in mixed[:2]]
    cross_entropy = -sum(math.log(row[0]) for row in clean) / 4
    assert float(terms["cross-entropy"]) == pytest.approx(cross_entropy, rel=1e-12)
    assert float(terms["mixing"]) == pytest.approx(5 * sum(divergences) / 4, rel=1e-9)


def test_the_mixed_input_is_on_the_way_to_the_adversary(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    attack = PGD(None, 3, 0.2)
    model = spy().train()
    SmoothMix(NOISE, attack).loss(model, x, y, seed())
    assert model.modes == [False] * 3 + [True] * 2
    deltas = NOISE.draw(torch.zeros(10, 4), seed()).view(5, 2, 4)
    x_adv = attack.perturb(spy(), x, y, deltas)
    x_mix = x + mixing(x)[:, None] * (x_adv - x)
    assert torch.allclose(model.seen[-2].view(5, 2, 4), x[:, None] + deltas, atol=1e-6)
    assert torch.allclose(model.seen[-1].view(5, 2, 4), x_mix[:, None] + deltas, atol=1e-6)
    assert float((x_adv - x).norm(dim=1).max()) > 0.5, "there is no ball"


def test_without_mixing_it_is_cross_entropy_of_the_copies(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    copies = NOISE.draw(x.repeat_interleave(3, dim=0), seed())
    expected = F.cross_entropy(spy()(copies), y.repeat_interleave(3))
    assert torch.allclose(SmoothMix(NOISE, draws=3, eta=0).loss(spy(), x, y, seed()), expected, atol=1e-6)


def test_the_one_step_adversary_takes_the_clean_side(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    model = spy()
    objective = SmoothMix(NOISE, PGD(None, 3, 0.2), clean_step=0.2)
    objective.at(4).loss(model, x, y, seed())
    deltas = NOISE.draw(torch.zeros(10, 4), seed()).view(5, 2, 4)
    moved = model.seen[-2].view(5, 2, 4) - deltas - x[:, None]
    assert torch.allclose(moved.norm(dim=2), torch.tensor(0.5 * 0.2), atol=1e-6), "half-way through the warm-up"
    assert torch.allclose(PGD(0.1, 1, 0.1).perturb(spy(), x, y, deltas), x + moved[:, 0], atol=1e-6)


def test_eta_warms_up(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    terms = [SmoothMix(NOISE).at(epoch).terms(spy(), x, y, seed()) for epoch in (0, 3.5, 9, 100)]
    whole = SmoothMix(NOISE).terms(spy(), x, y, seed())["mixing"].item()
    assert whole > 0
    assert [t["mixing"].item() / whole for t in terms] == pytest.approx([0.1, 0.4, 1, 1], rel=1e-5)
    assert len({t["cross-entropy"].item() for t in terms}) == 1


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(InputError, match="noise of SmoothMix must be added to the input"):
        SmoothMix(Ablation(keep=0.5))
    with pytest.raises(InputError, match="clean_step of SmoothMix"):
        SmoothMix(NOISE, clean_step=-1.0)
