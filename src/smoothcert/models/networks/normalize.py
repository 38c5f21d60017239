"""Normalisation as the first layer of the model."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError


class Normalize(nn.Module):
    """Computes `(x - mean) / std` per channel.

    Smoothing adds its noise to raw pixels in [0, 1], where radii are measured (Cohen et al. 2019, section 4), so the
    normalisation belongs behind the noise: inside the model, and as buffers inside the checkpoint.

    Args:
        mean: one number per channel.
        std: one positive number per channel.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not mean:
            raise InputError(f"mean and std must both have one number per channel, got {len(mean)} and {len(std)}")
        if not all(value > 0 for value in std):
            raise InputError(f"std must be positive in every channel, got {tuple(std)}")
        self.channels = len(mean)
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(-1, 1, 1))  # (C, 1, 1)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(-1, 1, 1))  # (C, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised batch, same shape `(..., C, H, W)`; an `InputError` if x has another C."""
        _refuse_other_channels(x, self.channels)
        return (x - self.mean) / self.std

    def extra_repr(self) -> str:
        """Show the number of channels."""
        return f"channels={self.channels}"


def _refuse_other_channels(x: Tensor, channels: int) -> None:
    # Broadcasting would turn a grey image into a three-channel one, and the model would answer.
    if x.ndim < 3 or x.shape[-3] != channels:
        raise InputError(f"x must have {channels} channels, (batch, {channels}, height, width), got {tuple(x.shape)}")


# Keeps Normalize traceable by torch.fx, which folds batch-norm, in spite of the question it asks about the shape.
torch.fx.wrap("_refuse_other_channels")
