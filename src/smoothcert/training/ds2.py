"""Training with a strength of the noise for each input (DDRS, Alfarra et al. 2022, algorithm 2; "DS2" in the paper)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import evaluating
from smoothcert.noise import Noise
from smoothcert.noise.ascent import ascend, searchable
from smoothcert.training.objectives import Objective


@dataclass(frozen=True)
class DS2:
    """Before each batch the strengths of its inputs take one step (K = 1) of ascent on the soft radius, from where the
    last epoch left them; then the objective has each input under noise of its own strength.

    The model is in evaluation mode for the step, as for an attack. Strengths stay between sigma / span and sigma * span
    (the paper sets no bounds, and they may walk away).

    Args:
        start: epochs that all inputs have the strength of the objective's noise first.
        lr: of the ascent.
        draws: noisy copies of an input for a step; the paper has 1, and 8 for MACER.
        span: how far strengths may go.
    """

    start: int = 50
    lr: float = 1e-4
    draws: int = 1
    span: float = 4.0

    def __post_init__(self) -> None:
        whole = ((self.start, 0), (self.draws, 1))
        if any(isinstance(n, bool) or not isinstance(n, int) or n < least for n, least in whole):
            raise InputError(
                f"start and draws of ds2 must be whole numbers from 0 and from 1, got {self.start} and {self.draws}"
            )
        if not self.lr > 0 or not self.span > 1:
            raise InputError(f"lr of ds2 must be above 0 and span above 1, got {self.lr} and {self.span}")

    def first(self, objective: Objective, size: int, device: torch.device) -> Tensor:
        """Where the strengths of `size` inputs begin, (N,)."""
        noise = objective.noise
        if not objective.classifies or not noise.additive or not noise.has_soft_radius or noise.levels is not None:
            raise InputError(
                "ds2 needs an objective that classifies, and noise with a differentiable radius and without a grid, "
                f"such as gaussian or uniform, got {objective.name} with {noise}"
            )
        return torch.full((size,), noise.strength, device=device)

    def improve(
        self, objective: Objective, model: nn.Module, x: Tensor, strength: Tensor, stream: torch.Generator
    ) -> Tensor:
        """The strengths (B,) of inputs x (B, ...) one step further."""
        noise = searchable(objective.noise)
        units = _copies(noise.with_strength(1.0), x, self.draws, stream)
        with evaluating(model):
            moved = ascend(lambda noisy: objective.scores(model, noisy), noise, x, strength, units, lr=self.lr)
        return moved.clamp(noise.strength / self.span, noise.strength * self.span)


def _copies(noise: Noise, x: Tensor, draws: int, stream: torch.Generator) -> Tensor:
    """Noises of every input, (B, m, ...)."""
    zeros = torch.zeros_like(x).repeat_interleave(draws, dim=0)
    return noise.draw(zeros, stream).view(len(x), draws, *x.shape[1:])
