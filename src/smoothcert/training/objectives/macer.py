"""MACER (Zhai et al. 2020, algorithm 1): maximise the certified radius of what is classified correctly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.training.objectives.base import (
    OBJECTIVES,
    Objective,
    check_count,
    check_weight,
    log_mean_softmax,
    noisy_scores,
)


@OBJECTIVES.add
@dataclass(frozen=True)
class MACER(Objective):
    """-log z_y + lam * max(gamma * sigma/2 - radius(z_beta), 0), the second only where z_beta is right.

    z = mean_j softmax(f(x + delta_j)); z_beta has the scores times beta, the inverse temperature, first. Only the
    robustness term has beta: in both terms it makes training unstable (section 5.3). The radius
    of Gaussian noise is sigma/2 * xi, xi = Phi^-1(z_top) - Phi^-1(z_second), and so the term is the paper's
    lam * sigma/2 * max(gamma - xi, 0); other noises bring their own radius, and gamma counts halves of their strength.

    Phi^-1 is taken of scores clamped to [1e-6, 1 - 1e-6], where the authors drop inputs with an infinite xi. Clamped xi
    reaches 9.5: up to that gamma, the hinge is zero at all inputs that the authors drop. At gamma = 8 and up to 585
    classes a clamped score is never on the active side of the hinge, so the loss is the paper's.

    `deferred_until`: lam is 0 before that epoch (the paper's CIFAR-10 setting at sigma 1: the first drop of the
    learning rate).
    """

    name: ClassVar[str] = "macer"
    draws: int = 16
    lam: float = 12.0
    gamma: float = 8.0
    beta: float = 16.0
    deferred_until: float = 0.0

    def __post_init__(self) -> None:
        if not self.noise.has_soft_radius or self.noise.norm == "linf":
            raise InputError(
                f"noise of {type(self).__name__} must have a differentiable l2 or l1 radius (Gaussian, Uniform), "
                f"got {self.noise}"
            )
        check_count(f"draws of {type(self).__name__}", self.draws)
        for field in ("lam", "gamma", "beta", "deferred_until"):
            check_weight(f"{field} of {type(self).__name__}", getattr(self, field))

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The classification loss of the smoothed scores, and the hinge loss of the certified radius."""
        scores = noisy_scores(model, self.noise, x, self.draws, generator, strength)  # (B, m, C)
        z_beta = (self.beta * scores).softmax(dim=-1).mean(dim=1)  # (B, C)
        (top, second), (answer, _) = (values.unbind(dim=1) for values in z_beta.topk(2, dim=1))  # (B,) each
        radius = self.noise.soft_radius(top, second, strength)
        goal = self.gamma / 2 * (self.noise.strength if strength is None else strength.to(top))
        hinge = F.relu(goal - radius) * (answer == y)  # (B,)
        deferred = self.epoch is not None and self.epoch < self.deferred_until
        return {
            "classification": F.nll_loss(log_mean_softmax(scores), y),
            "robustness": (0.0 if deferred else self.lam) * hinge.mean(),
        }
