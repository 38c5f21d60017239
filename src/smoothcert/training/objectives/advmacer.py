"""AdvMacer (Liu et al. 2023, algorithm 1): MACER's loss at SmoothAdv's adversarial point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from smoothcert.training.objectives.attack import PGD, Attack, check_attack
from smoothcert.training.objectives.base import OBJECTIVES, check_count
from smoothcert.training.objectives.macer import MACER
from smoothcert.training.objectives.smoothadv import SmoothAdv


@OBJECTIVES.add
@dataclass(frozen=True)
class AdvMACER(MACER):
    """MACER's two terms at x_adv, with noise drawn anew; `draws` is the m of both, as in the paper.

    Line 3 of the algorithm draws around x where it means x_adv, and line 8 adds another delta: the noise of the loss is
    drawn once per step, around x_adv.
    """

    name: ClassVar[str] = "advmacer"
    draws: int = 8
    attack: Attack = field(default_factory=lambda: PGD(eps=1.0, steps=2))
    warmup: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attack("AdvMACER", self.attack)
        check_count("warmup of AdvMACER", self.warmup, 0)

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """MACER's terms at SmoothAdv's point."""
        adversary = SmoothAdv(self.noise, self.attack, self.draws, self.warmup, epoch=self.epoch)
        x_adv, _ = adversary.point(model, x, y, generator, strength)
        return super().terms(model, x_adv, y, generator, strength)
