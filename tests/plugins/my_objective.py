"""Noise augmentation with smoothed labels (Szegedy et al. 2016): never quite sure, so that logits stay small."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import smoothcert as sc
from smoothcert.training.objectives import Objective


@sc.register
@dataclass(frozen=True)
class SmoothedLabels(Objective):
    """Cross-entropy at one noisy copy with (1 - smoothing) of the label and `smoothing` of the uniform law."""

    name: ClassVar[str] = "smoothed-labels"
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise sc.InputError(f"smoothing must lie in [0, 1), got {self.smoothing}")

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """One term."""
        noisy = self.noise.draw(x, generator, strength)
        return {"cross-entropy": F.cross_entropy(model(noisy), y, label_smoothing=self.smoothing)}
