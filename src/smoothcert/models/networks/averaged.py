"""Copies of a network that are one network: trained together, their scores averaged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Averaged(nn.Module):
    """The mean of the scores of its members.

    Unlike members that were trained apart and vote softly, these are trained on one loss, that of their mean.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        return torch.stack([member(x) for member in self.members]).mean(dim=0)
