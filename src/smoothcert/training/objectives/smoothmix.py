"""SmoothMix (Jeong et al. 2021, algorithm 1): sure at the input, unsure on the way to where the answer changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.noise.base import per_row
from smoothcert.training.objectives.attack import PGD, Attack, check_attack, forward
from smoothcert.training.objectives.base import (
    OBJECTIVES,
    Objective,
    additive_noise,
    check_additive,
    check_count,
    check_weight,
    copies_cross_entropy,
    log_mean_softmax,
)


@OBJECTIVES.add
@dataclass(frozen=True)
class SmoothMix(Objective):
    """Mean cross-entropy of the clean noisy copies + eta * mean_j KL(target || softmax f(x_mix + delta_j)).

    x_adv is where the attack goes, without a ball to stay in (the box of valid inputs holds, as in the authors' code);
    x_mix = (1-u) x + u x_adv with u uniform on (0, 1/2];
    the target is (1-u) F_hat(x) + u / C, F_hat the mean softmax of the clean copies (the gradient goes through it, as
    in the authors' code). The second term counts only where F_hat is right. All copies and the attack share the noise.

    `clean_step` > 0 puts the one-step adversary of that length in the place of x (the authors take the attack's step).
    eta and `clean_step` grow linearly to their size over the first `warmup` epochs.
    """

    name: ClassVar[str] = "smoothmix"
    attack: Attack = field(default_factory=lambda: PGD(eps=None, steps=4, step_size=0.5))
    draws: int = 2
    eta: float = 5.0
    clean_step: float = 0.0
    warmup: int = 10

    def __post_init__(self) -> None:
        check_additive("SmoothMix", self.noise)
        check_attack("SmoothMix", self.attack)
        check_count("draws of SmoothMix", self.draws)
        check_count("warmup of SmoothMix", self.warmup, 0)
        check_weight("eta of SmoothMix", self.eta)
        check_weight("clean_step of SmoothMix", self.clean_step)

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Cross-entropy at the clean end, and the divergence from the mixed target at the mixed input."""
        deltas = additive_noise(self.noise, x, self.draws, generator, strength)  # (B, m, ...)
        # In (0, 1/2], so that no entry of the target is 0 and its logarithm is finite.
        u = (1 - torch.rand(len(x), generator=generator, dtype=x.dtype, device=x.device)) / 2  # (B,)
        x_adv = self.attack.perturb(model, x, y, deltas)
        if self.clean_step:
            step = PGD(None, 1, self.clean_step * self.ramp(self.warmup), bounds=self.attack.bounds)
            x = step.perturb(model, x, y, deltas)
        clean = forward(model, x, deltas)  # (B, m, C)
        mean = log_mean_softmax(clean).exp()  # (B, C)
        target = (1 - u[:, None]) * mean + u[:, None] / mean.shape[1]
        mixed = forward(model, torch.lerp(x, x_adv, per_row(u, x)), deltas)
        divergence = (target * (target.log() - F.log_softmax(mixed, dim=-1).mean(dim=1))).sum(dim=1)  # (B,)
        right = mean.argmax(dim=1) == y
        return {
            "cross-entropy": copies_cross_entropy(clean, y),
            "mixing": self.eta * self.ramp(self.warmup) * (right * divergence).mean(),
        }
