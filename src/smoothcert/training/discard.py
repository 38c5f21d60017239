"""Training that gives up hard inputs (after Sun et al. 2025, "Average Certified Radius is a Poor Metric")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import evaluating
from smoothcert.training.objectives import Objective


@dataclass(frozen=True)
class Discard:
    """From epoch `start` on, training inputs whose label has less than `below` of the answers under noise are left out.

    An input that is not certified adds nothing to the ACR, however close it comes; a small network that is spared such
    inputs may certify the others farther, for less accuracy. Sun et al. do this to warn of the ACR: look at both.
    Departures: it is the first of their three strategies alone, without weights by the radius and without more effort
    for easy inputs; and inputs are judged once, from few draws. With `ds2` they are judged under the noise of the
    objective, with `ema` by the averaged weights.

    Args:
        start: epochs with all inputs first; 0 if training goes on with a model that can judge them.
        below: the share of answers.
        draws: noisy copies of each input that it is judged by, in evaluation mode.
    """

    start: int = 10
    below: float = 0.5
    draws: int = 8

    def __post_init__(self) -> None:
        whole = ((self.start, 0), (self.draws, 1))
        if any(isinstance(n, bool) or not isinstance(n, int) or n < least for n, least in whole):
            raise InputError(
                f"start and draws of discard must be whole numbers from 0 and from 1, got {self.start} and {self.draws}"
            )
        if isinstance(self.below, bool) or not isinstance(self.below, int | float) or not 0 < self.below <= 1:
            raise InputError(f"below of discard must lie in (0, 1], as 0.5 does, got {self.below!r}")

    @torch.no_grad()
    def answers(self, objective: Objective, model: nn.Module, x: Tensor, y: Tensor, stream: torch.Generator) -> Tensor:
        """The share of noisy copies of x (B, ...) that the model answers with the labels y (B,), (B,)."""
        noisy = objective.noise.draw(x.repeat_interleave(self.draws, dim=0), stream)  # (B m, ...)
        with evaluating(model):
            found = objective.scores(model, noisy).argmax(dim=1)  # (B m,)
        return (found.view(len(x), self.draws) == y[:, None]).float().mean(dim=1)
