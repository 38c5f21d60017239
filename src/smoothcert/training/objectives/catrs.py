"""CAT-RS (Jeong, Kim & Shin 2023): inputs are trained as hard as the model is sure of them."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.core.model import evaluating
from smoothcert.models import fingerprint
from smoothcert.noise import Noise
from smoothcert.training.objectives.attack import forward, into_ball, unit_direction
from smoothcert.training.objectives.base import (
    OBJECTIVES,
    Objective,
    additive_noise,
    check_additive,
    check_count,
    check_weight,
    noisy_scores,
)


@OBJECTIVES.add
@dataclass(frozen=True)
class CATRS(Objective):
    """The K easiest of M noisy copies, and, where all M count, the worst of M adversarial noises.

    p_hat is the share of copies that the model answers with the label, K ~ Binomial(M, p_hat), at least 1. The first
    term is the sum of the K smallest cross-entropies, over M: hard inputs are not forced. Where K = M the second is
    lam * max_i KL(target || F(x + delta_i')): delta_i' is copy i's noise after `steps` normalised ascent steps of
    length 2 eps / steps on that divergence, in a ball of radius eps around delta_i, with the mean and standard
    deviation of delta_i put back after each step, so that it still looks like noise. No gradient goes through the
    target.

    The target is the smoothed answer of `teacher`, a classifier that was trained under Gaussian noise of .25, under the
    noise `teacher_noise`; without a teacher it is the label. Departure: the paper computes it once, from 10 000 draws
    for each training input; here it is the mean of `teacher_draws` fresh ones in every step. The divergence of
    a copy is linear in the target but for a constant, so its gradient has the same mean; which copy is the worst, and
    where the ascent goes, may differ from step to step.
    """

    name: ClassVar[str] = "catrs"
    draws: int = 4
    lam: float = 1.0
    eps: float = 256 / 255
    steps: int = 4
    teacher: nn.Module | None = None
    teacher_noise: Noise | None = None
    teacher_draws: int = 4

    def __post_init__(self) -> None:
        check_additive("CAT-RS", self.noise)
        for field in ("draws", "steps", "teacher_draws"):
            check_count(f"{field} of CAT-RS", getattr(self, field))
        check_weight("lam of CAT-RS", self.lam)
        if not 0 < self.eps < math.inf:
            raise InputError(f"eps of CAT-RS must be a positive number, got {self.eps}")
        if (self.teacher is None) != (self.teacher_noise is None):
            raise InputError("teacher and teacher_noise of CAT-RS go together; give both, or neither")
        if self.teacher is not None and any(p.requires_grad for p in self.teacher.parameters()):
            object.__setattr__(self, "teacher", copy.deepcopy(self.teacher).eval().requires_grad_(False))

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """What the easy copies say, and the worst of the adversarial ones where all are easy."""
        deltas = additive_noise(self.noise, x, self.draws, generator, strength)  # (B, M, ...)
        scores = forward(model, x, deltas)  # (B, M, C)
        labels = y[:, None].expand(-1, self.draws)
        losses = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)  # (B, M)
        sure = (scores.argmax(dim=-1) == labels).double().mean(dim=1)  # (B,) \hat p
        coins = torch.rand(labels.shape, generator=generator, dtype=torch.float64, device=x.device)
        count = (coins < sure[:, None]).sum(dim=1).clamp_min(1)  # (B,) K
        easy = losses.sort(dim=1).values * (torch.arange(self.draws, device=x.device) < count[:, None])
        target = self._target(x, y, scores.shape[-1], generator)  # (B, C)
        worst = self._divergences(model, x, self._adversarial(model, x, deltas, target), target).amax(dim=1)  # (B,)
        return {
            "low": easy.sum(dim=1).mean() / self.draws,
            "high": self.lam * ((count == self.draws) * worst).mean(),
        }

    def _target(self, x: Tensor, y: Tensor, classes: int, generator: torch.Generator) -> Tensor:
        if self.teacher is None or self.teacher_noise is None:
            return F.one_hot(y, classes).to(x.dtype)
        with torch.no_grad():
            scores = noisy_scores(self.teacher, self.teacher_noise, x, self.teacher_draws, generator, None)
            return scores.softmax(dim=-1).mean(dim=1).to(x.dtype)

    def _adversarial(self, model: nn.Module, x: Tensor, deltas: Tensor, target: Tensor) -> Tensor:
        """Noises (B, M, ...) that the model finds hardest, near the given ones; in evaluation mode."""
        first = deltas.flatten(0, 1)  # (B M, ...)
        mean, deviation = _moments(first)
        moved, length = first, 2 * self.eps / self.steps
        with evaluating(model):
            for _ in range(self.steps):
                point = moved.detach().requires_grad_()
                with torch.enable_grad():
                    loss = self._divergences(model, x, point.view_as(deltas), target).sum()
                    (gradient,) = torch.autograd.grad(loss, point)
                near = first + into_ball(moved + length * unit_direction(gradient, first) - first, self.eps)
                center, spread = _moments(near)
                moved = (near - center) / spread.clamp_min(torch.finfo(x.dtype).tiny) * deviation + mean
        return moved.detach().view_as(deltas)

    @staticmethod
    def _divergences(model: nn.Module, x: Tensor, deltas: Tensor, target: Tensor) -> Tensor:
        """KL(target || F(x + delta_i)), (B, M)."""
        scores = F.log_softmax(forward(model, x, deltas), dim=-1)  # (B, M, C)
        entropy = torch.special.entr(target).sum(dim=1)  # (B,)
        divergences: Tensor = -(target[:, None] * scores).sum(dim=-1) - entropy[:, None]
        return divergences

    def describe(self) -> dict[str, Any]:
        """The teacher by its fingerprint."""
        return super().describe() | {"teacher": self.teacher and fingerprint(self.teacher)}


def _moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each row, shaped to fit rows (N, ...)."""
    shape = (-1, *[1] * (rows.dim() - 1))
    flat = rows.flatten(1)
    return flat.mean(dim=1).view(shape), flat.std(dim=1, correction=0).view(shape)
