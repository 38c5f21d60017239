"""Labels of a router, against networks whose soft radii are known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset, from_arrays
from smoothcert.workflows.route_labels import (
    CLAMP,
    member_radii,
    nearest,
    noisy_scores,
    route_labels,
    vote_radii,
    vote_share,
)
from smoothcert.workflows.sources import open_model
from smoothcert.workflows.train_router import relabelled, train_router


class Plane(nn.Module):
    """Scores of two classes: an input of zeros is of class 1, `distance` from the plane where that ends."""

    num_classes = 2

    def __init__(self, distance: float) -> None:
        super().__init__()
        self.distance = distance

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([0 * x[:, 0], x[:, 0] + self.distance], dim=1)


def test_the_radius_is_that_of_the_votes_that_many_draws_will_show() -> None:
    """Margins of a half space are normal, so the share of votes is known, and the radius is the distance."""
    x, truth, noise = torch.zeros(3, 2), torch.tensor([1, 0, 1]), sc.Gaussian(0.5)
    scores = noisy_scores(Plane(0.4), x, noise, draws=4000, stream=torch.Generator().manual_seed(0))
    assert scores.shape == (3, 4000, 2)
    assert vote_radii(scores, truth, noise) == pytest.approx([0.4, -0.4, 0.4], abs=0.05)
    certain = torch.tensor([[[0.0, 1.0]] * 4]).double()
    assert vote_radii(certain, torch.tensor([1]), noise) == pytest.approx([0.5 * norm.ppf(1 - CLAMP)])
    # Mean scores would make strong noise look worse than it is: 0.6 in every draw is every vote.
    assert vote_share(torch.tensor([[[0.4, 0.6]] * 4]), torch.tensor([1])).item() == 1.0


def labels(data: Dataset, *distances: float, neighbours: int = 1) -> list[int]:
    members = {s: open_model(Plane(d)) for s, d in zip((0.5, 1.0), distances, strict=True)}
    radii = member_radii(members, {s: sc.Gaussian(s) for s in members}, data, draws=200)
    return [int(label) for label in route_labels(radii, data, neighbours=neighbours)]


def test_each_input_is_labelled_with_what_suits_it() -> None:
    """The larger radius decides; where both are wrong, the less wrong one."""
    data = from_arrays(np.zeros((3, 3), dtype=np.float32), np.array([1, 1, 0]), split="train")
    assert labels(data, 1.2, 0.8) == [0, 0, 1]
    assert labels(data, 0.6, 1.2) == [1, 1, 0]
    taught = relabelled(data, np.array(labels(data, 1.2, 0.8)), [0.5, 1.0])
    assert (taught.num_classes, taught.class_names, taught.labels.tolist()) == (2, ("0.5", "1"), [0, 0, 1])
    assert taught.fingerprint != data.fingerprint


def test_neighbours_decide_by_what_is_at_stake() -> None:
    """Two clusters of inputs. A wrong answer is worth 0, so one with much at stake outweighs two with little."""
    places = [0.0, 0.01, 0.02, 1.0, 1.01, 1.02]
    data = from_arrays(np.array([[p] * 3 for p in places], dtype=np.float32), np.zeros(6, dtype=int), split="train")
    small, wide = [1.0, 1.0, 1.0, 1.0, 1.0, -9.0], [1.1, 1.1, 0.2, 1.1, 1.1, -1.0]
    radii = np.array([small, wide])
    assert route_labels(radii, data, neighbours=1).tolist() == [1, 1, 0, 1, 1, 1]
    assert route_labels(radii, data, neighbours=3).tolist() == [0, 0, 0, 1, 1, 1]
    assert set(route_labels(radii, data, neighbours=100).tolist()) == {0}  # the best single strength
    near = nearest(data, 3)
    assert [sorted(row) for row in near.tolist()] == [[0, 1, 2]] * 3 + [[3, 4, 5]] * 3


def test_what_is_no_router_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two strengths or more, got 1"):
        train_router("mnist-lenet-consistency-0.50-fast", {0.5: Plane(0.9)}, out=tmp_path / "a")
    easy = "cifar10-resnet20-consistency-easy-0.50"
    with pytest.raises(
        InputError, match=f"{easy} goes on with a trained model, and a router is trained from the start"
    ):
        train_router(easy, {0.25: Plane(0.9), 0.5: Plane(0.9)}, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()
