"""An exponential moving average of weights (Polyak & Juditsky 1992; as in Tarvainen & Valpola 2017)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """After step t every average is `decay` times itself and the rest of the weight, less in the first steps.

    The decay is at most (1 + t) / (10 + t), so that the first weights are soon forgotten. Statistics of batch-norms are
    averaged likewise; whole numbers are those of the last step.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.tensors = {name: value.detach().clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after a step."""
        self.steps += 1
        rest = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, value in model.state_dict().items():
            average = self.tensors[name]
            if average.is_floating_point():
                average.lerp_(value, rest)
            else:
                average.copy_(value)

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Go on from what was kept."""
        self.steps = steps
        for name, value in tensors.items():
            self.tensors[name].copy_(value)


@contextmanager
def averaged(model: nn.Module, average: MovingAverage | None) -> Iterator[None]:
    """The model as it would be if training ended now: with the averages, if there are any, while the block lasts."""
    if average is None:
        yield
        return
    own = {name: value.detach().clone() for name, value in model.state_dict().items()}
    model.load_state_dict(average.tensors)
    try:
        yield
    finally:
        model.load_state_dict(own)
