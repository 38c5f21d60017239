from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Ablation
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training.objectives import DDN, PGD, AdvMACER, SmoothAdv, SmoothMix

NOISE = GaussianNoise(0.25)
Batch = tuple[Tensor, Tensor]


def seed() -> torch.Generator:
    return generator(0, "test", "test", 0)


def test_the_loss_is_cross_entropy_at_the_adversarial_copies(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    """Worked out copy by copy; every step and the loss have the same noise, in evaluation and in training mode."""
    x, y = batch
    for attack in [PGD(0.3, 4), DDN(0.3, 3)]:
        model = spy().train()
        loss = SmoothAdv(NOISE, attack, draws=3).loss(model, x, y, seed())
        assert model.modes == [False] * 4 + [True]
        first, last = (model.seen[i].view(5, 3, 4) for i in (0, -1))
        deltas = first - x[:, None]
        assert torch.equal(first, NOISE.draw(x.repeat_interleave(3, dim=0), seed()).view(5, 3, 4))
        x_adv = attack.perturb(spy(), x, y, deltas)
        assert torch.allclose(last, x_adv[:, None] + deltas, atol=1e-6)
        mean = sum(F.cross_entropy(spy()(x_adv + deltas[:, j]), y) for j in range(3)) / 3
        assert torch.allclose(loss, mean, atol=1e-6)


def test_batch_statistics_come_from_the_loss_alone(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    model = spy(nn.BatchNorm1d(8)).train()
    SmoothAdv(NOISE, PGD(0.3, 4), draws=3).loss(model, x, y, seed()).backward()
    assert int(model.net[1].num_batches_tracked) == 1
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_attack_makes_it_harder(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    losses = [SmoothAdv(NOISE, PGD(eps, 10), draws=8).loss(spy(), x, y, seed()).item() for eps in (0.0, 0.1, 0.3)]
    assert losses == sorted(losses)
    assert losses[2] > losses[0]


def test_the_attack_warms_up_linearly(batch: Batch, spy: Callable[..., nn.Module]) -> None:
    """eps/10 in the first epoch, eps from the tenth on."""
    x, y = batch
    objective = SmoothAdv(NOISE, PGD(0.5, 2), draws=2)
    sizes = []
    for epoch in [0, 0.5, 4, 9, 50]:
        x_adv, _ = objective.at(epoch).point(spy(), x, y, seed(), None)
        sizes.append(float((x_adv - x).norm(dim=1).max()))
    assert sizes == pytest.approx([0.05, 0.05, 0.25, 0.5, 0.5], rel=1e-5)
    instant = SmoothAdv(NOISE, PGD(0.5, 2), draws=2, warmup=0)
    assert float((instant.at(0).point(spy(), x, y, seed(), None)[0] - x).norm(dim=1).max()) == pytest.approx(0.5)


def test_what_cannot_work_is_refused() -> None:
    for kind in (SmoothAdv, SmoothMix, AdvMACER):
        with pytest.raises(InputError, match=rf"attack of {kind.__name__} must be an Attack, such as .* got 'pgd'"):
            kind(NOISE, attack="pgd")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="noise of SmoothAdv must be added to the input, ablation noise replaces"):
        SmoothAdv(Ablation(keep=0.5))
    with pytest.raises(InputError, match=r"draws of SmoothAdv must be an integer of at least 1, got 2\.5"):
        SmoothAdv(NOISE, draws=2.5)  # type: ignore[arg-type]
