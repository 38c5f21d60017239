"""The paper's baseline (DDRS, Alfarra et al. 2022, appendix B): the best soft radius of equally spaced strengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.engine.sigma.base import CHOOSING, SEARCHES, OneByOne, scores_at, stream_of
from smoothcert.noise import Noise
from smoothcert.noise.ascent import soft_radii, unit_draws


@SEARCHES.add
@dataclass(frozen=True)
class Grid(OneByOne):
    """`steps` strengths from sigma_0 / span to sigma_0 * span, each with `draws` draws of its own (equation 4)."""

    name: ClassVar[str] = "grid"
    steps: int = 64
    draws: int = 8

    @property
    def evaluations(self) -> int:
        """All strengths, and the class."""
        return CHOOSING + self.steps * self.draws

    @torch.inference_mode()
    def find(self, model: Model, x: Tensor, noise: Noise, seed: int) -> float:
        """The strength with the largest soft radius."""
        stream = stream_of(seed, x)
        first = torch.from_numpy(scores_at(model, x, unit_draws(noise, x, CHOOSING, stream), noise.strength))
        label = first.softmax(dim=1).mean(dim=0).argmax().expand(self.steps)
        tried = torch.linspace(noise.strength / self.span, noise.strength * self.span, self.steps, dtype=torch.float64)
        units = unit_draws(noise, x, self.steps * self.draws, stream)
        scores = torch.from_numpy(scores_at(model, x, units, tried.repeat_interleave(self.draws)))
        radii = soft_radii(noise, scores.view(self.steps, self.draws, -1), tried, label)
        return self._on_lattice(float(tried[int(radii.argmax())]), noise)
