"""SmoothAdv (Salman et al. 2019, algorithm 1): adversarial training of the smoothed classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from smoothcert.training.objectives.attack import PGD, Attack, check_attack, forward
from smoothcert.training.objectives.base import (
    OBJECTIVES,
    Objective,
    additive_noise,
    check_additive,
    check_count,
    copies_cross_entropy,
)


@OBJECTIVES.add
@dataclass(frozen=True)
class SmoothAdv(Objective):
    """Cross-entropy of the copies x_adv + delta_j, where x_adv attacks the smoothed classifier under the same delta_j.

    The attack (PGD, DDN, or Carried, which goes on from epoch to epoch) grows linearly to its size over the first
    `warmup` epochs.
    """

    name: ClassVar[str] = "smoothadv"
    attack: Attack = field(default_factory=lambda: PGD(eps=1.0, steps=10))
    draws: int = 8
    warmup: int = 10

    def __post_init__(self) -> None:
        check_additive("SmoothAdv", self.noise)
        check_attack("SmoothAdv", self.attack)
        check_count("draws of SmoothAdv", self.draws)
        check_count("warmup of SmoothAdv", self.warmup, 0)

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Cross-entropy at the adversarial point, under the draws it was found with."""
        x_adv, deltas = self.point(model, x, y, generator, strength)
        return {"cross-entropy": copies_cross_entropy(forward(model, x_adv, deltas), y)}

    def point(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The adversarial point, (B, ...), and the noise draws it was found with, (B, m, ...)."""
        deltas = additive_noise(self.noise, x, self.draws, generator, strength)
        return self.attack.scaled(self.ramp(self.warmup)).perturb(model, x, y, deltas), deltas
