import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Ablation
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training.objectives import DDN, PGD, Consistency, SmoothAdv

NOISE = GaussianNoise(0.25)
ROWS = [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]
X, Y = torch.zeros(2, 4, dtype=torch.float64), torch.tensor([0, 1])
log = math.log
CROSS_ENTROPY = -(log(0.8) + log(0.6) + 2 * log(0.5)) / 4
# First input, mean (.7, .2, .1); the copies of the second are equal and do not diverge.
DIVERGENCE = (
    0.7 * log(0.7 / 0.8) + 0.2 * log(0.2 / 0.1) + 0.7 * log(0.7 / 0.6) + 0.2 * log(0.2 / 0.3)
) / 2  # fmt: skip
ENTROPIES = [-(0.7 * log(0.7) + 0.2 * log(0.2) + 0.1 * log(0.1)), -(0.2 * log(0.2) + 0.5 * log(0.5) + 0.3 * log(0.3))]


def seed() -> torch.Generator:
    return generator(0, "test", "test", 0)


def test_the_terms_are_the_papers(prescribed: type[nn.Module]) -> None:
    terms = Consistency(NOISE, lam=20, eta=0.5).terms(prescribed(ROWS), X, Y, seed())
    assert float(terms["cross-entropy"]) == pytest.approx(CROSS_ENTROPY, rel=1e-12)
    assert float(terms["consistency"]) == pytest.approx(20 * DIVERGENCE / 2, rel=1e-12)
    assert float(terms["entropy"]) == pytest.approx(0.5 * sum(ENTROPIES) / 2, rel=1e-12)


def test_without_weights_it_is_cross_entropy_or_smoothadv(
    prescribed: type[nn.Module], batch: tuple[Tensor, Tensor], spy: Callable[..., nn.Module]
) -> None:
    plain = Consistency(NOISE, lam=0, eta=0)
    assert float(plain.loss(prescribed(ROWS), X, Y, seed())) == pytest.approx(CROSS_ENTROPY, rel=1e-12)
    x, y = batch
    for attack in [PGD(0.3, 3), DDN(0.3, 3)]:
        on_top = Consistency(NOISE, draws=4, lam=0, eta=0, attack=attack).at(3)
        expected = SmoothAdv(NOISE, attack, draws=4).at(3).loss(spy(), x, y, seed())
        assert torch.equal(on_top.loss(spy(), x, y, seed()), expected)
    model = spy().train()
    Consistency(NOISE, draws=4, attack=PGD(0.3, 3)).loss(model, x, y, seed())
    assert model.modes == [False] * 3 + [True]
    assert torch.equal(
        Consistency(NOISE, attack=PGD(0.0, 1)).loss(spy(), x, y, seed()), Consistency(NOISE).loss(spy(), x, y, seed())
    )


def test_bad_options_are_refused_and_every_noise_works_without_an_attack(
    batch: tuple[Tensor, Tensor], spy: Callable[..., nn.Module]
) -> None:
    with pytest.raises(InputError, match="draws of Consistency must be an integer of at least 2, got 1"):
        Consistency(NOISE, draws=1)
    with pytest.raises(InputError, match="eta of Consistency"):
        Consistency(NOISE, eta=-1)
    with pytest.raises(InputError, match="must be added to the input"):
        Consistency(Ablation(keep=0.5), attack=PGD(1.0, 1))
    assert math.isfinite(Consistency(Ablation(keep=0.5)).loss(spy(), *batch, seed()).item())
