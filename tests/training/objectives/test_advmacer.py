from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training.objectives import MACER, PGD, AdvMACER, SmoothAdv

NOISE = GaussianNoise(0.25)


def seed() -> torch.Generator:
    return generator(0, "test", "test", 0)


def test_it_is_macer_at_the_point_of_smoothadv_with_new_noise(
    batch: tuple[Tensor, Tensor], spy: Callable[..., nn.Module]
) -> None:
    """For eps = 0 that is MACER's loss itself, after the draws of the attack."""
    x, y = batch
    for eps in [0.0, 0.5]:
        attack, random = PGD(eps, 3), seed()
        x_adv, deltas = SmoothAdv(NOISE, attack, draws=4).point(spy(), x, y, random, None)
        expected = MACER(NOISE, draws=4, lam=3).terms(spy(), x_adv, y, random)
        model = spy()
        terms = AdvMACER(NOISE, draws=4, lam=3, attack=attack).terms(model, x, y, seed())
        assert list(terms) == list(expected)
        assert all(torch.equal(terms[name], expected[name]) for name in terms)
        assert torch.equal(x_adv, x) == (eps == 0)
        fresh = model.seen[-1].view(5, 4, 4) - x_adv[:, None]
        assert not torch.allclose(fresh, deltas, atol=0.05), "the noise is drawn anew"


def test_eps_zero_is_macer_exactly(batch: tuple[Tensor, Tensor], spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    random = seed()
    NOISE.draw(x.repeat_interleave(4, dim=0), random)  # what the attack draws
    expected = MACER(NOISE, draws=4).loss(spy(), x, y, random)
    assert torch.equal(AdvMACER(NOISE, draws=4, attack=PGD(0.0, 2)).loss(spy(), x, y, seed()), expected)


def test_the_attack_warms_up_and_lambda_can_wait(batch: tuple[Tensor, Tensor], spy: Callable[..., nn.Module]) -> None:
    x, y = batch
    objective = AdvMACER(NOISE, draws=4, attack=PGD(0.5, 2), deferred_until=5)
    small = AdvMACER(NOISE, draws=4, attack=PGD(0.5 * 0.3, 2), lam=0)
    assert torch.equal(objective.at(2.7).loss(spy(), x, y, seed()), small.loss(spy(), x, y, seed()))
    assert torch.equal(objective.at(10).loss(spy(), x, y, seed()), objective.loss(spy(), x, y, seed()))


def test_defaults_are_the_papers_and_bad_ones_are_refused() -> None:
    objective = AdvMACER(NOISE)
    assert (objective.lam, objective.gamma, objective.beta) == (12, 8, 16)
    assert (objective.attack, objective.draws, objective.warmup) == (PGD(1.0, 2), 8, 10)  # table 2, sigma 0.25
    with pytest.raises(InputError, match="warmup of AdvMACER must be an integer of at least 0, got -1"):
        AdvMACER(NOISE, warmup=-1)
    with pytest.raises(InputError, match="draws of AdvMACER"):
        AdvMACER(NOISE, draws=0)
