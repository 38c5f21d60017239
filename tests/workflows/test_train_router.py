"""Labels of a router, against networks whose soft radii are known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.datasets import from_arrays
from smoothcert.workflows.sources import open_model
from smoothcert.workflows.train_router import CLAMP, relabelled, route_labels, soft_radii, train_router


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


def test_each_input_is_labelled_with_what_suits_it() -> None:
    """Of 0.5 * z(0.99) and 1 * z(0.8), the first is larger; where both are wrong, the less wrong one is."""
    data = from_arrays(np.zeros((3, 3), dtype=np.float32), np.array([1, 1, 0]), split="train")
    members = {0.5: open_model(Sure(0.99)), 1.0: open_model(Sure(0.8))}
    noises = {s: sc.Gaussian(s) for s in members}
    assert route_labels(members, noises, data, draws=2).tolist() == [0, 0, 1]
    wide = {0.5: open_model(Sure(0.9)), 1.0: open_model(Sure(0.9))}
    assert route_labels(wide, noises, data, draws=2).tolist() == [1, 1, 0]
    taught = relabelled(data, route_labels(members, noises, data, draws=2), [0.5, 1.0])
    assert (taught.num_classes, taught.class_names, taught.labels.tolist()) == (2, ("0.5", "1"), [0, 0, 1])
    assert taught.fingerprint != data.fingerprint


def test_what_is_no_router_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two strengths or more, got 1"):
        train_router("mnist-lenet-consistency-0.50-fast", {0.5: Sure(0.9)}, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()
