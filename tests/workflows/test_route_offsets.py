"""Offsets of a router's scores, against routers and members whose radii are known."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.workflows.route_offsets import Offsets, settle_offsets, shift_scores

NOISE = sc.Gaussian(1.0)


def scores(*distances: float, draws: int = 2000) -> Tensor:
    """Of a router that chooses 1 where the first number is positive, for inputs so far from there, (N, m, 2)."""
    noise = torch.randn(len(distances), draws, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    high = torch.tensor(distances, dtype=torch.float64)[:, None] + noise
    return torch.stack([torch.zeros_like(high), high], dim=2)


def test_an_offset_moves_the_plane_to_where_it_costs_least() -> None:
    """Two inputs 2 apart, the router's plane on one of them: half way, both are held as far as 1."""
    found = settle_offsets(scores(2.0, 0.0), np.array([[0.0, 1.0], [1.0, 0.0]]), NOISE)
    assert found.values[1] - found.values[0] == pytest.approx(-1.0, abs=0.15)
    assert found.routed == pytest.approx(1.0, abs=0.05)
    assert found.single == pytest.approx(0.5)


def test_a_router_whose_radius_costs_more_than_its_choices_gain_always_chooses_one() -> None:
    """Both are answered far at strength 1, one a little farther at 0; inputs are near each other."""
    given = scores(0.1, -0.1)
    found = settle_offsets(given, np.array([[0.0, 2.1], [2.0, 2.0]]), NOISE)
    assert found.routed == found.single == pytest.approx(2.0)
    shifted = given + torch.tensor(found.values)
    assert bool((shifted.argmax(dim=2) == 1).all())


def test_wrong_answers_are_worth_nothing() -> None:
    found = settle_offsets(scores(9.0, 9.0), np.array([[-5.0, -5.0], [1.0, -5.0]]), NOISE)
    assert found.routed == pytest.approx(0.5)


def test_offsets_become_part_of_the_network() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    before = net(x)
    shift_scores(net, Offsets((0.5, -2.0), 1.0, 1.0))
    assert torch.allclose(net(x), before + torch.tensor([0.5, -2.0]))
    for other in (nn.Sequential(nn.Linear(4, 3)), nn.Sequential(nn.Linear(4, 2, bias=False)), nn.Flatten()):
        with pytest.raises(sc.InputError, match="must end in a linear layer with a bias"):
            shift_scores(other, Offsets((0.5, -2.0), 1.0, 1.0))
