"""What every registered objective must keep, with Gaussian and uniform noise."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.noise import Noise, Uniform
from smoothcert.training.objectives import (
    CATRS,
    DDN,
    MACER,
    OBJECTIVES,
    PGD,
    AdvMACER,
    Attack,
    Consistency,
    Denoising,
    Gaussian,
    Objective,
    SmoothAdv,
    SmoothMix,
    Stability,
)

# From a noise and an attack (where it has one) to the objective.
Make = Callable[[Noise, Attack], Objective]
CASES: dict[str, Make] = {
    "gaussian": lambda noise, _: Gaussian(noise),
    "stability": lambda noise, _: Stability(noise),
    "smoothadv": lambda noise, attack: SmoothAdv(noise, attack, draws=3),
    "macer": lambda noise, _: MACER(noise, draws=3, beta=2),
    "advmacer": lambda noise, attack: AdvMACER(noise, draws=3, beta=2, attack=attack),
    "consistency": lambda noise, _: Consistency(noise, draws=3),
    "consistency on smoothadv": lambda noise, attack: Consistency(noise, draws=3, attack=attack),
    "smoothmix": lambda noise, attack: SmoothMix(noise, attack, draws=3),
    "smoothmix, one step": lambda noise, attack: SmoothMix(noise, attack, draws=3, clean_step=0.05),
    "catrs": lambda noise, _: CATRS(noise, draws=3, eps=0.2, steps=2),
    "denoising": lambda noise, _: Denoising(noise),
    "denoising for a classifier": lambda noise, _: Denoising(noise, nn.Identity()),
}
NOISES = [GaussianNoise(0.25), Uniform(0.5)]
objectives = pytest.mark.parametrize("make", CASES.values(), ids=CASES)
noises = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
attacks = pytest.mark.parametrize("attack", [PGD(0.3, 2), DDN(0.3, 2)], ids=lambda attack: attack.name)
SIZE = 7


def data(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.rand(SIZE, 4, generator=torch.Generator().manual_seed(0), dtype=dtype), torch.arange(SIZE) % 3


def net(*extra: nn.Module) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 8), *extra, nn.Tanh(), nn.Linear(8, 4)).train()  # 4 classes, or no noise


def seed(block: int = 0) -> torch.Generator:
    return generator(0, "test", "test", block)


def test_every_objective_is_here() -> None:
    assert {type(make(NOISES[0], PGD(0.1, 1))) for make in CASES.values()} == set(OBJECTIVES.values())


@objectives
@noises
@attacks
def test_the_loss_is_finite_repeatable_and_reaches_all_weights(make: Make, noise: Noise, attack: Attack) -> None:
    objective, (x, y) = make(noise, attack), data()
    gradients = []
    for block in [0, 0, 1]:
        model = net(nn.BatchNorm1d(8))
        loss = objective.loss(model, x, y, seed(block))
        assert loss.shape == ()
        assert math.isfinite(loss.item())
        loss.backward()
        assert all(part.training for part in model.modules())
        assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in model.parameters())
        # A bias before batch normalisation has no influence.
        assert all(bool((p.grad != 0).any()) for name, p in model.named_parameters() if name != "0.bias")
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.allclose(gradients[0], gradients[2])


@objectives
@noises
def test_the_loss_is_the_sum_of_its_terms(make: Make, noise: Noise) -> None:
    objective, (x, y) = make(noise, PGD(0.3, 2)), data()
    terms = objective.terms(net(), x, y, seed())
    assert all(term.shape == () for term in terms.values())
    total = sum(term.item() for term in terms.values())
    assert objective.loss(net(), x, y, seed()).item() == pytest.approx(total, rel=1e-6)


@objectives
@noises
@attacks
def test_equal_strengths_are_one_strength(make: Make, noise: Noise, attack: Attack) -> None:
    objective, (x, y) = make(noise, attack), data()
    alone = objective.loss(net(), x, y, seed())
    assert torch.allclose(objective.loss(net(), x, y, seed(), torch.full((SIZE,), noise.strength)), alone)
    assert not torch.allclose(objective.loss(net(), x, y, seed(), torch.full((SIZE,), 3 * noise.strength)), alone)


@objectives
@noises
def test_every_copy_has_the_strength_of_its_input(make: Make, noise: Noise) -> None:
    """Inputs and strengths are repeated in the same order: else weak inputs get strong noise."""
    x, y = data()
    seen: list[Tensor] = []
    model = net()
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    strengths = torch.tensor([1e-6, 1.0, 1e-6, 1e-6, 1.0, 1.0, 1e-6])
    make(noise, PGD(1e-7, 1)).loss(model, x, y, seed(), strengths)
    for batch in (seen[0], seen[-1]) if len(seen[0]) > SIZE else seen[-1:]:
        off = (batch.view(SIZE, -1, 4) - x[:, None]).flatten(1).abs().amax(dim=1)
        assert torch.equal(off > 0.1, strengths > 0.1), "the adversary on the clean side is 0.05 away"


@dataclass(frozen=True)
class OwnNoise(GaussianNoise):
    """Noise that follows from an input's strength and the number of the copy: parts of a batch have its noise."""

    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        assert strength is not None
        rows, copies = [], dict[float, int]()
        for sigma in strength.tolist():
            copies[sigma] = copies.get(sigma, 0) + 1
            random = torch.Generator().manual_seed(int(1e6 * sigma) * 100 + copies[sigma])
            rows.append(sigma * torch.randn(x.shape[1:], generator=random, dtype=x.dtype))
        return x + torch.stack(rows)


@objectives
@attacks
def test_parts_of_a_batch_add_up(make: Make, attack: Attack) -> None:
    """Losses of parts, weighted by their sizes, are the loss of the batch; so are the gradients."""
    objective, (x, y) = make(OwnNoise(0.25), attack), data(torch.float64)
    strengths = torch.linspace(0.1, 0.7, SIZE, dtype=torch.float64)
    model = net().double()
    whole = objective.terms(model, x, y, seed(), strengths)
    random, parts = seed(), dict.fromkeys(whole, torch.zeros((), dtype=torch.float64))
    for rows in torch.split(torch.arange(SIZE), 3):
        for name, term in objective.terms(model, x[rows], y[rows], random, strengths[rows]).items():
            parts[name] = parts[name] + term * len(rows) / SIZE
    for name, term in whole.items():
        assert torch.allclose(parts[name], term, rtol=1e-9), name
    weights = list(model.parameters())
    gradients = [torch.autograd.grad(torch.stack(list(terms.values())).sum(), weights) for terms in (whole, parts)]
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(*gradients, strict=True))


@dataclass(frozen=True)
class Shift(Attack):
    """An attack that does not look at the model: so that the loss is differentiable as it stands."""

    name = "shift"
    eps: float | Tensor | None = None
    steps: int = 1

    def _ascend(self, x: Tensor, spare: Tensor, look: object, y: Tensor) -> Tensor:
        return 0.2 * torch.sin(torch.arange(x.numel(), dtype=x.dtype)).view_as(x)


FOLLOWING = ("smoothmix, one step", "catrs")  # points that move with the weights: no gradient goes that way
DIFFERENTIABLE = {name: make for name, make in CASES.items() if name not in FOLLOWING}


@pytest.mark.parametrize("make", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
@noises
def test_gradients_are_those_of_finite_differences(make: Make, noise: Noise) -> None:
    objective, (x, y) = make(noise, Shift()), data(torch.float64)
    model = net().double()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    loss = objective.loss(model, x, y, seed())
    gradient = nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(model.parameters())))

    def at(moved: Tensor) -> float:
        nn.utils.vector_to_parameters(moved, model.parameters())
        return objective.loss(model, x, y, seed()).item()

    h = 1e-6
    for way in torch.randn(4, len(weights), generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        slope = (at(weights + h * way) - at(weights - h * way)) / (2 * h)
        assert slope == pytest.approx(float(gradient @ way), rel=1e-6, abs=1e-6)


class Sure(nn.Module):
    """A linear model with scores of about +-1e4."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        with torch.no_grad():
            self.linear.weight.copy_(2e4 * torch.eye(4))
            self.linear.bias.fill_(-1e4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


@objectives
@noises
@attacks
def test_sure_scores_keep_loss_and_gradient_finite(make: Make, noise: Noise, attack: Attack) -> None:
    model, (x, y) = Sure(), data()
    assert float(model(x).detach().abs().max()) > 5e3
    terms = make(noise, attack).terms(model, x, y, seed())
    assert all(math.isfinite(term.item()) for term in terms.values())
    torch.stack(list(terms.values())).sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())


@objectives
@noises
@attacks
def test_the_description_is_data(make: Make, noise: Noise, attack: Attack) -> None:
    """All that it was made of is there, and nothing of when in training it is."""
    objective = make(noise, attack)
    description = objective.describe()
    assert json.loads(json.dumps(description)) == description
    assert description["name"] == objective.name
    assert description["noise"] == noise.describe()
    assert "epoch" not in description
    assert objective.at(3).describe() == description
    if getattr(objective, "attack", None) is not None:
        assert description["attack"]["name"] == attack.name
    if getattr(objective, "classifier", None) is None:
        assert Objective.from_description(json.loads(json.dumps(description))) == objective
    else:
        with pytest.raises(InputError, match="classifier cannot be made from"):
            Objective.from_description(description)


@objectives
def test_an_epoch_after_all_schedules_changes_nothing(make: Make) -> None:
    objective, (x, y) = make(NOISES[0], PGD(0.3, 2)), data()
    losses = [
        scheduled.loss(net(), x, y, seed()) for scheduled in (objective, objective.at(99), objective.at(0).at(99))
    ]
    assert torch.equal(losses[0], losses[1])
    assert torch.equal(losses[0], losses[2])
