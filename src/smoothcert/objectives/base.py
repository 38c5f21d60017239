"""The contract of a training objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from smoothcert.noise import Noise


@dataclass(frozen=True)
class Objective(ABC):
    """A loss of a model on a batch, under noise. Frozen; hyper-parameters are fields."""

    name: ClassVar[str]
    noise: Noise

    @abstractmethod
    def loss(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> Tensor:
        """Mean loss over the batch: x (B, ...) raw inputs, y (B,) labels; `strength` (B,) gives each its own noise."""
