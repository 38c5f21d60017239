"""Random crops and flips of a whole batch at once, on the device where it is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from smoothcert.core.errors import InputError


@dataclass(frozen=True)
class Augment:
    """Shift an image by up to `crop` pixels each way (zeros come in, as of a padded crop) and mirror it half the time.

    What is done to a batch is drawn first, (B, 3), so that every process of a group can draw it and apply its part.
    """

    crop: int = 0
    flip: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.crop, bool) or not isinstance(self.crop, int) or self.crop < 0:
            raise InputError(f"crop of the augmentation must be a number of pixels, at least 0, got {self.crop!r}")

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """For each of `size` images: top and left of the crop in the padded image, and whether to mirror."""
        corners = torch.randint(0, 2 * self.crop + 1, (size, 2), generator=generator)
        mirror = torch.randint(0, 2, (size, 1), generator=generator) * int(self.flip)
        return torch.cat([corners, mirror], dim=1)  # (B, 3)

    def apply(self, x: Tensor, what: Tensor) -> Tensor:
        """The images x (B, C, H, W), each cropped and mirrored as `what` (B, 3) says."""
        if not self.crop and not self.flip:
            return x
        if x.dim() != 4:
            raise InputError(f"only images (B, C, H, W) can be cropped and flipped, got {tuple(x.shape)}: leave it out")
        (batch, channels, height, width), p = x.shape, self.crop
        top, left, mirror = what.to(x.device).unbind(1)
        rows = top[:, None] + torch.arange(height, device=x.device)  # (B, H)
        columns = torch.arange(width, device=x.device).expand(batch, -1)
        columns = left[:, None] + torch.where(mirror[:, None] > 0, width - 1 - columns, columns)  # (B, W)
        padded = F.pad(x, (p, p, p, p))
        flat = rows[:, :, None] * (width + 2 * p) + columns[:, None, :]  # (B, H, W) places in a padded channel
        picked = padded.flatten(2).gather(2, flat.flatten(1)[:, None].expand(-1, channels, -1))
        return picked.view(batch, channels, height, width)

    def describe(self) -> dict[str, Any]:
        """The parameters, JSON-able."""
        return dataclasses.asdict(self)
