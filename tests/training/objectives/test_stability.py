import math

import pytest
import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.training.objectives import Stability

log = math.log
CLEAN, NOISY = [[0.7, 0.3], [0.1, 0.9]], [[0.6, 0.4], [0.5, 0.5]]
X, Y = torch.zeros(2, 4, dtype=torch.float64), torch.tensor([0, 0])


def test_the_terms_are_the_papers(prescribed: type[nn.Module]) -> None:
    terms = Stability(GaussianNoise(0.5)).terms(prescribed(CLEAN, NOISY), X, Y, generator(0, "t", "t", 0))
    assert float(terms["cross-entropy"]) == pytest.approx(-(log(0.7) + log(0.1)) / 2, rel=1e-12)
    pull = -(0.7 * log(0.6) + 0.3 * log(0.4) + 0.1 * log(0.5) + 0.9 * log(0.5)) / 2
    assert float(terms["stability"]) == pytest.approx(2 * pull, rel=1e-12)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(InputError, match=r"lam of Stability must be a finite number of at least 0, got -2\.0"):
        Stability(GaussianNoise(0.5), lam=-2.0)
