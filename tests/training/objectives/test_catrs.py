"""CAT-RS against the paper's algorithm, written out for few copies, and its parts by their properties."""

import math

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Ablation, Gaussian
from smoothcert.training.objectives import CATRS

NOISE = Gaussian(0.5)


def seed() -> torch.Generator:
    return generator(0, "test", "test", 0)


class Answers(nn.Module):
    """One answer per call, for all rows; the gradient with respect to the input is zero."""

    def __init__(self, *calls: list[list[float]]) -> None:
        super().__init__()
        self.calls = [torch.tensor(rows, dtype=torch.float64).log() for rows in calls]

    def forward(self, x: Tensor) -> Tensor:
        return self.calls.pop(0) + 0 * x.sum()


def linear(classes: int = 3) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Linear(16, classes).double()


def test_sure_inputs_get_all_copies_and_the_worst_noise() -> None:
    """Both copies of both inputs are right, so K = M; the label is the target, so the divergence is a cross-entropy."""
    clean = [[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
    moved = [[0.7, 0.3], [0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]
    x, y = torch.full((2, 16), 0.5, dtype=torch.float64), torch.tensor([0, 1])
    terms = CATRS(NOISE, draws=2, lam=3.0, steps=1).terms(Answers(clean, moved, moved), x, y, seed())
    low = -sum(math.log(p) for p in (0.8, 0.6, 0.7, 0.9)) / 4
    high = -3 * (math.log(0.7) + math.log(0.6)) / 2  # the worse copy of each
    assert float(terms["low"]) == pytest.approx(low, rel=1e-12)
    assert float(terms["high"]) == pytest.approx(high, rel=1e-12)


def test_hopeless_inputs_get_their_easiest_copy_alone() -> None:
    """No copy is right: K is 0, but at least 1 counts, and no adversarial noise does."""
    clean = [[0.2, 0.8], [0.4, 0.6]]
    x, y = torch.full((1, 16), 0.5, dtype=torch.float64), torch.tensor([0])
    terms = CATRS(NOISE, draws=2, steps=1).terms(Answers(clean, clean, clean), x, y, seed())
    assert float(terms["low"]) == pytest.approx(-math.log(0.4) / 2, rel=1e-12)
    assert float(terms["high"]) == 0


def test_adversarial_noise_is_harder_and_looks_like_noise() -> None:
    objective, model = CATRS(NOISE, draws=4), linear()
    x = torch.rand(5, 16, generator=seed(), dtype=torch.float64)
    deltas = 0.5 * torch.randn(5, 4, 16, generator=seed(), dtype=torch.float64)
    target = torch.eye(3, dtype=torch.float64)[torch.tensor([0, 1, 2, 0, 1])]
    moved = objective._adversarial(model, x, deltas, target)
    assert torch.allclose(moved.mean(dim=-1), deltas.mean(dim=-1), atol=1e-12)
    assert torch.allclose(moved.std(dim=-1), deltas.std(dim=-1), atol=1e-12)
    before, after = (objective._divergences(model, x, d, target) for d in (deltas, moved))
    assert bool((after > before).all()), "a linear model's divergence is convex: ascent rises"


def test_a_teacher_gives_soft_targets_that_no_gradient_goes_through() -> None:
    teacher = linear()
    objective = CATRS(NOISE, teacher=teacher, teacher_noise=Gaussian(0.25), teacher_draws=8)
    x, y = torch.rand(4, 16, generator=seed(), dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    target = objective._target(x, y, 3, seed())
    assert torch.allclose(target.sum(dim=1), torch.ones(4, dtype=torch.float64))
    assert float(target.max()) < 1
    objective.loss(linear(), x, y, seed()).backward()
    assert all(p.grad is None for p in teacher.parameters())


class Still(CATRS):
    """Noise stays where it is: then the loss is differentiable as it stands."""

    def _adversarial(self, model: nn.Module, x: Tensor, deltas: Tensor, target: Tensor) -> Tensor:
        return deltas


def test_gradients_are_those_of_finite_differences() -> None:
    objective, model = Still(NOISE, draws=3), linear()
    x, y = torch.rand(4, 16, generator=seed(), dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    gradient = nn.utils.parameters_to_vector(
        torch.autograd.grad(objective.loss(model, x, y, seed()), list(model.parameters()))
    )

    def at(moved: Tensor) -> float:
        nn.utils.vector_to_parameters(moved, model.parameters())
        return objective.loss(model, x, y, seed()).item()

    for way in torch.randn(4, len(weights), generator=seed(), dtype=torch.float64):
        slope = (at(weights + 1e-6 * way) - at(weights - 1e-6 * way)) / 2e-6
        assert slope == pytest.approx(float(gradient @ way), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"draws": 0}, "draws of CAT-RS"),
        ({"steps": 0}, "steps of CAT-RS"),
        ({"eps": 0.0}, "eps of CAT-RS"),
        ({"lam": -1.0}, "lam of CAT-RS"),
        ({"teacher": nn.Linear(2, 2)}, "go together"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CATRS(NOISE, **options)  # type: ignore[arg-type]


def test_noise_that_is_not_added_is_refused() -> None:
    with pytest.raises(InputError, match="ablation"):
        CATRS(Ablation(0.8, 256))
