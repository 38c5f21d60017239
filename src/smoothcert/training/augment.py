"""Random crops, flips and bends of a whole batch at once, on the device where it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from smoothcert.core.errors import InputError

CONTROL = 4
"""Points along each side of the grid whose displacements bend an image."""


@dataclass(frozen=True)
class Augment:
    """Shift an image by up to `crop` pixels each way (zeros come in), mirror it half the time, and bend it.

    `affine` is how far each entry of a random linear map, which turns, stretches and shears the image about its centre,
    may be from the identity. `elastic` is how many pixels each of 4 x 4 points may be moved each way, and what lies
    between follows smoothly (after Simard et al. 2003, who draw a field per pixel and smooth it).
    What is done to a batch is drawn first, a row per image, so that every process of a group can draw it and apply its
    part.
    """

    crop: int = 0
    flip: bool = False
    affine: float = 0.0
    elastic: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.crop, bool) or not isinstance(self.crop, int) or self.crop < 0:
            raise InputError(f"crop of the augmentation must be a number of pixels, at least 0, got {self.crop!r}")
        numbers = all(isinstance(n, int | float) and not isinstance(n, bool) for n in (self.affine, self.elastic))
        if not numbers or not (0 <= self.affine < 1 and 0 <= self.elastic < math.inf):
            raise InputError(
                "affine of the augmentation must lie in [0, 1) and elastic be a number of pixels, at least 0, "
                f"got {self.affine!r} and {self.elastic!r}"
            )

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """For each of `size` images: top and left of the crop in the padded image, whether to mirror, and the bends."""
        corners = torch.randint(0, 2 * self.crop + 1, (size, 2), generator=generator)
        mirror = torch.randint(0, 2, (size, 1), generator=generator) * int(self.flip)
        what = torch.cat([corners, mirror], dim=1)  # (B, 3)
        if not self._bends:
            return what
        linear = self.affine * (2 * torch.rand(size, 4, generator=generator) - 1)
        moved = self.elastic * (2 * torch.rand(size, 2 * CONTROL**2, generator=generator) - 1)
        return torch.cat([what.float(), linear, moved], dim=1)  # (B, 3 + 4 + 2 * 16)

    def apply(self, x: Tensor, what: Tensor) -> Tensor:
        """The images x (B, C, H, W), each cropped, mirrored and bent as its row of `what` says."""
        if not self.crop and not self.flip and not self._bends:
            return x
        if x.dim() != 4:
            raise InputError(
                f"only images (B, C, H, W) can be cropped, flipped and bent, got {tuple(x.shape)}: leave it out"
            )
        if self._bends and min(x.shape[2:]) < 2:
            raise InputError(
                f"images of {x.shape[2]} x {x.shape[3]} pixels cannot be bent: leave out affine and elastic"
            )
        (batch, channels, height, width), p = x.shape, self.crop
        what = what.to(x.device)
        top, left, mirror = what[:, :3].long().unbind(1)
        rows = top[:, None] + torch.arange(height, device=x.device)  # (B, H)
        columns = torch.arange(width, device=x.device).expand(batch, -1)
        columns = left[:, None] + torch.where(mirror[:, None] > 0, width - 1 - columns, columns)  # (B, W)
        padded = F.pad(x, (p, p, p, p))
        flat = rows[:, :, None] * (width + 2 * p) + columns[:, None, :]  # (B, H, W) places in a padded channel
        picked = padded.flatten(2).gather(2, flat.flatten(1)[:, None].expand(-1, channels, -1))
        picked = picked.view(batch, channels, height, width)
        return _bent(picked, what[:, 3:7], what[:, 7:]) if self._bends else picked

    @property
    def _bends(self) -> bool:
        return self.affine > 0 or self.elastic > 0

    def describe(self) -> dict[str, Any]:
        """The parameters, JSON-able; bends only if there are any."""
        bends = {"affine": self.affine, "elastic": self.elastic}
        return {"crop": self.crop, "flip": self.flip} | {name: value for name, value in bends.items() if value}


def _bent(x: Tensor, linear: Tensor, moved: Tensor) -> Tensor:
    """x (B, C, H, W) looked up where a linear map (B, 4) and moved points (B, 2 * 16) send each pixel."""
    batch, _, height, width = x.shape
    sides = x.new_tensor([(width - 1) / 2, (height - 1) / 2])  # pixels from the centre to the borders
    here = (
        torch.stack(
            torch.meshgrid(
                torch.linspace(-1, 1, width, device=x.device),
                torch.linspace(-1, 1, height, device=x.device),
                indexing="xy",
            ),
            dim=-1,
        )
        * sides
    )  # (H, W, 2)
    there = here @ (torch.eye(2, device=x.device) + linear.view(batch, 1, 2, 2))  # (B, H, W, 2)
    field = moved.view(batch, 2, CONTROL, CONTROL)
    field = F.interpolate(field, size=(height, width), mode="bicubic", align_corners=True)  # (B, 2, H, W)
    there = there + field.permute(0, 2, 3, 1)
    bent = F.grid_sample(x, there / sides, mode="bilinear", padding_mode="zeros", align_corners=True)
    return bent.clamp(min(0.0, float(x.min())), float(x.max()))  # weights of neighbours may add up to 1.0000001
