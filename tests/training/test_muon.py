"""Muon: steps with equal singular values, for matrices and convolutions; plain momentum for the rest."""

import math

import pytest
import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.training.muon import Muon, orthogonalised
from smoothcert.training.recipes import find
from smoothcert.training.recipes.build import change, optimizer_of


@pytest.mark.parametrize("shape", [(10, 64), (64, 576), (64, 10), (16, 16), (1, 5)])
def test_singular_values_become_about_one_and_directions_stay(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    made = orthogonalised(1e-6 * matrix)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    inside = u.T @ made @ v.T  # diagonal where the directions are the same
    kept = s > s[0] / 20  # the smallest of a square matrix take more than five steps
    assert bool(((inside.diagonal()[kept] > 0.6) & (inside.diagonal()[kept] < 1.3)).all())
    torch.testing.assert_close(inside, torch.diag(inside.diagonal()), atol=1e-3, rtol=0)


def test_a_zero_gradient_moves_nothing() -> None:
    weight = nn.Parameter(torch.ones(3, 4))
    weight.grad = torch.zeros(3, 4)
    Muon([weight], lr=0.1, weight_decay=0.0).step()
    assert bool((weight == 1).all())


def test_what_gets_no_gradient_any_more_comes_to_rest() -> None:
    weight = nn.Parameter(torch.ones(3, 4))
    optimizer = Muon([weight], lr=0.1, weight_decay=0.0)
    weight.grad = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    optimizer.step()
    weight.grad = torch.zeros(3, 4)
    for _ in range(1000):
        optimizer.step()
    before = weight.detach().clone()
    for _ in range(1000):
        optimizer.step()
    assert bool(before.isfinite().all())
    assert bool((weight == before).all())


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
def test_its_steps_are_those_of_torch_for_a_matrix() -> None:
    """Momentum, Nesterov, decay and scale; torch computes in bfloat16, so to two digits."""
    ours, theirs = (nn.Parameter(torch.full((6, 10), 0.5)) for _ in range(2))
    made = Muon([ours], lr=0.05, weight_decay=0.1), torch.optim.Muon([theirs], lr=0.05, weight_decay=0.1)
    chance = torch.Generator().manual_seed(0)
    for _ in range(6):
        gradient = torch.randn(6, 10, generator=chance)
        for parameter, optimizer in zip((ours, theirs), made, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, atol=0.006, rtol=0.02)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (), (3,)])
def test_other_shapes_do_no_harm(shape: tuple[int, ...]) -> None:
    weight = nn.Parameter(torch.ones(shape))
    weight.grad = torch.ones(shape)
    Muon([weight], lr=0.1).step()
    assert bool((weight < 1).all())


def test_half_precision_does_not_overflow() -> None:
    weight = nn.Parameter(torch.zeros(8, 8, dtype=torch.float16))
    weight.grad = torch.full((8, 8), 3e4, dtype=torch.float16)
    Muon([weight], lr=0.1).step()
    assert bool(weight.isfinite().all())
    assert bool((weight < 0).all())


def test_first_steps_are_those_worked_out_by_hand() -> None:
    # The gradient is of rank one, so its orthogonalised form is the same direction with a length of about 1.
    weight, bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))
    weight.grad, bias.grad = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([1.0, -2.0])
    Muon([weight, bias], lr=0.1, momentum=0.5, weight_decay=0.0).step()
    direction = weight.detach() / weight.detach().norm()
    torch.testing.assert_close(direction, torch.tensor([[-0.6, -0.8], [0.0, 0.0]]))
    assert 0.065 < weight.detach().norm() < 0.125
    torch.testing.assert_close(bias.detach(), torch.tensor([-0.15, 0.3]))  # Nesterov: g + .5 g


def test_a_convolution_is_one_matrix_in_any_layout() -> None:
    gradient = torch.randn(8, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    moved = []
    for layout in (torch.contiguous_format, torch.channels_last):
        weight = nn.Parameter(torch.zeros(8, 3, 5, 5).to(memory_format=layout))
        weight.grad = gradient.to(memory_format=layout)
        Muon([weight], lr=1.0, weight_decay=0.0).step()
        moved.append(weight.detach())
    torch.testing.assert_close(moved[0], moved[1])
    torch.testing.assert_close(moved[0].flatten(1), -orthogonalised(gradient.flatten(1)))


def test_tall_matrices_take_longer_steps_and_decay_takes_its_share() -> None:
    weight = nn.Parameter(torch.eye(4)[:, :1].clone())
    weight.grad = torch.eye(4)[:, 1:2].clone()
    Muon([weight], lr=0.5, weight_decay=0.2).step()
    moved = weight.detach()
    assert moved[0, 0].item() == pytest.approx(1 - 0.5 * 0.2)
    assert -moved[1, 0].item() / (0.5 * math.sqrt(4)) == pytest.approx(0.95, abs=0.3)


@pytest.mark.parametrize("options", [{"lr": 0.0}, {"momentum": 1.0}, {"weight_decay": -1.0}, {"lr": math.inf}])
def test_what_is_no_setting_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="lr of Muon must be positive"):
        Muon([nn.Parameter(torch.zeros(2))], **options)


def test_a_recipe_may_take_it() -> None:
    recipe = change(find("mnist-lenet-gaussian-0.50-fast"), ["optimizer=muon", "lr=0.03", "weight_decay=0.015"])
    make = optimizer_of(recipe)
    assert make is not None
    made = make([nn.Parameter(torch.zeros(2, 2))])
    assert isinstance(made, Muon)
    assert {name: made.param_groups[0][name] for name in ("lr", "weight_decay", "momentum")} == {
        "lr": 0.03,
        "weight_decay": 0.015,
        "momentum": 0.95,
    }


def test_it_trains_faster_than_momentum_where_directions_differ_in_scale() -> None:
    """A linear map with a condition of 100: as many steps bring Muon much nearer."""
    torch.manual_seed(0)
    x = torch.randn(256, 16) * torch.logspace(0, -2, 16)
    goal = torch.randn(16, 16)
    left = []
    for make in (lambda p: Muon(p, lr=0.3, weight_decay=0.0), lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9)):
        weight = nn.Parameter(torch.zeros(16, 16))
        optimizer = make([weight])
        for step in range(100):
            for group in optimizer.param_groups:
                group["lr"] = group.setdefault("full", group["lr"]) * (1 - step / 100)
            optimizer.zero_grad()
            ((x @ (weight.T - goal)) ** 2).mean().backward()
            optimizer.step()
        left.append(float((weight.detach().T - goal).norm()))
    assert left[0] < 0.5 * left[1]
