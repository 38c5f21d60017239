"""Stability training (Li et al. 2019, section 4): right on the clean input, and the same answer on a noisy one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.training.objectives.base import OBJECTIVES, Objective, check_weight


@OBJECTIVES.add
@dataclass(frozen=True)
class Stability(Objective):
    """CE(f(x), y) + lam * CE(softmax f(x) -> f(x + delta)). Works for every noise. The gradient goes through both."""

    name: ClassVar[str] = "stability"
    lam: float = 2.0

    def __post_init__(self) -> None:
        check_weight("lam of Stability", self.lam)

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Cross-entropy with the label, and of the noisy answer with the clean one."""
        clean, noisy = model(x), model(self.noise.draw(x, generator, strength))  # (B, C)
        return {
            "cross-entropy": F.cross_entropy(clean, y),
            "stability": self.lam * F.cross_entropy(noisy, clean.softmax(dim=1)),
        }
