"""Noise augmentation (Lecuyer et al. 2019; Cohen et al. 2019, section 3.3): cross-entropy on one noisy copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.training.objectives.base import OBJECTIVES, Objective


@OBJECTIVES.add
@dataclass(frozen=True)
class GaussianAugmentation(Objective):
    """-log softmax(f(x + delta))_y, averaged over the batch. Works for every noise.

    Named "gaussian" as in the papers, and `objectives.Gaussian` outside.
    """

    name: ClassVar[str] = "gaussian"

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Cross-entropy at one noisy copy of every input."""
        return {"cross-entropy": F.cross_entropy(model(self.noise.draw(x, generator, strength)), y)}
