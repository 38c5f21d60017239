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
from smoothcert.workflows.route_labels import CLAMP, member_radii, nearest, route_labels, soft_radii
from smoothcert.workflows.sources import open_model
from smoothcert.workflows.train_router import relabelled, train_router


class Sure(nn.Module):
    """Scores of two classes that only the first number decides: class 1 with probability p there, if it is 1."""

    num_classes = 2

    def __init__(self, p: float) -> None:
        super().__init__()
        self.odds = float(np.log(p / (1 - p)))

    def forward(self, x: Tensor) -> Tensor:
        high = torch.full_like(x[:, 0], self.odds)
        return torch.stack([torch.zeros_like(high), high], dim=1)


def test_the_soft_radius_is_that_of_the_right_class() -> None:
    x, y = torch.zeros(2, 3), torch.tensor([1, 0])
    found = soft_radii(Sure(0.9), x, y, sc.Gaussian(0.5), draws=4, stream=torch.Generator().manual_seed(0))

    assert found == pytest.approx([0.5 * norm.ppf(0.9), -0.5 * norm.ppf(0.9)])
    certain = soft_radii(Sure(1 - 1e-12), x, y, sc.Gaussian(0.5), draws=4, stream=torch.Generator())
    assert certain[0] == pytest.approx(0.5 * norm.ppf(1 - CLAMP))


def labels(data: Dataset, *probabilities: float, neighbours: int = 1) -> list[int]:
    members = {s: open_model(Sure(p)) for s, p in zip((0.5, 1.0), probabilities, strict=True)}
    radii = member_radii(members, {s: sc.Gaussian(s) for s in members}, data, draws=2)
    return route_labels(radii, data, neighbours=neighbours).tolist()


def test_each_input_is_labelled_with_what_suits_it() -> None:
    """Of 0.5 * z(0.99) and 1 * z(0.8), the first is larger; where both are wrong, the less wrong one is."""
    data = from_arrays(np.zeros((3, 3), dtype=np.float32), np.array([1, 1, 0]), split="train")
    assert labels(data, 0.99, 0.8) == [0, 0, 1]
    assert labels(data, 0.9, 0.9) == [1, 1, 0]
    taught = relabelled(data, np.array(labels(data, 0.99, 0.8)), [0.5, 1.0])
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
        train_router("mnist-lenet-consistency-0.50-fast", {0.5: Sure(0.9)}, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()
