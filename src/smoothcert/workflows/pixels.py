"""The raw-pixel contract, checked: was a model trained with a normalisation outside of it, and with which?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.model import Model, device_of, evaluating
from smoothcert.core.randomness import generator
from smoothcert.datasets import Dataset, Subset
from smoothcert.models.normalisation import USUAL
from smoothcert.noise import Noise

AS_IT_IS = "none"
INPUTS, ROWS = 256, 64  # images that are looked at, and rows of a call
SURE = 0.01  # chance of calling a difference real that is none


@dataclass(frozen=True)
class PixelCheck:
    """How many inputs a model gets right with each of the usual normalisations before it."""

    inputs: int
    num_classes: int
    right: Mapping[str, int]  # by the name of the normalisation
    better: float  # p-value of an exact sign test: the best one against the model as it is
    under: str | None  # the noise that it was looked at under

    @property
    def best(self) -> str:
        """The normalisation that fits best; the model as it is where that is as good."""
        return max(self.right, key=lambda name: (self.right[name], name == AS_IT_IS))

    @property
    def fits(self) -> str | None:
        """Which one the model was trained with, as far as these inputs tell; None: they do not tell."""
        chance = _tail(self.right[self.best], self.inputs, 1 / self.num_classes) * len(self.right)
        if chance > SURE:
            return None
        return self.best if self.best == AS_IT_IS or self.better < SURE else AS_IT_IS

    @property
    def sentence(self) -> str:
        """The result in words, and what to do."""
        seen = f"of {self.inputs} inputs" + (f" under {self.under}" if self.under else "")
        plain = self.right[AS_IT_IS] / self.inputs
        best = self.right[self.best] / self.inputs
        if self.fits is None:
            return (
                f"raw pixels: nothing fits: with the best of the usual normalisations ({self.best}) it gets {best:.1%} "
                f"{seen} right, which is no better than guessing; is it a model of these data?"
            )
        if self.fits == AS_IT_IS:
            return (
                f"raw pixels: it takes them as they are: {plain:.1%} {seen} right; no usual normalisation does better"
            )
        return (
            f"raw pixels: it was trained with the normalisation {self.best}: {best:.1%} {seen} right with it, "
            f"{plain:.1%} without; put it inside: smoothcert model import MODEL --normalize {self.best} --out NEW"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"inputs": self.inputs, "right": dict(self.right), "fits": self.fits, "under": self.under}


def check_pixels(model: Model, data: Dataset, num_classes: int, noise: Noise | None) -> PixelCheck:
    """Compare accuracy on labelled data with and without the usual normalisations, under the noise if it is known."""
    every = max(1, len(data) // INPUTS)
    rows = Subset(every=every, limit=INPUTS).indices(len(data))
    x, y = data.tensors(rows), torch.from_numpy(data.labels[rows].copy())
    if noise is not None:
        x = noise.for_inputs(x).draw(x, generator(0, "", "pixels", 0))
    tried = {AS_IT_IS: _right(model, x, y)}
    for name, one in USUAL.items():
        if x.dim() == 4 and one.fits(x.shape[1]):
            mean, std = (torch.tensor(part).reshape(-1, 1, 1) for part in one.for_channels(x.shape[1]))
            tried[name] = _right(model, (x - mean) / std, y)
    plain = tried[AS_IT_IS]
    best = max(tried.values(), key=lambda right: int(right.sum()))
    gained, lost = int((best & ~plain).sum()), int((plain & ~best).sum())
    counts = {name: int(right.sum()) for name, right in tried.items()}
    under = None if noise is None else f"{noise.name} noise of {noise.strength_name} {noise.strength:g}"
    return PixelCheck(len(x), num_classes, counts, _tail(gained, gained + lost, 0.5), under)


@torch.inference_mode()
def _right(model: Model, x: Tensor, y: Tensor) -> Tensor:
    """Which inputs get the right answer, (B,)."""
    with evaluating(model):
        answers = [model(part.to(device_of(model))).argmax(dim=1).cpu() for part in torch.split(x, ROWS)]
    return torch.cat(answers) == y


def _tail(least: int, draws: int, p: float) -> float:
    """P(Binomial(draws, p) >= least)."""
    return math.fsum(math.comb(draws, k) * p**k * (1 - p) ** (draws - k) for k in range(least, draws + 1))
