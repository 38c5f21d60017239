"""Data that is kept out of training, and how good a base classifier is on it under noise."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import device_of, evaluating
from smoothcert.core.randomness import generator
from smoothcert.noise import Noise
from smoothcert.training.data import Data, TrainingData, training_data

ROWS = 256  # inputs per call


def hold_out(size: int, share: float) -> tuple[list[int], list[int]]:
    """The indices of 0..size-1 that are trained on, and the `share` that is held out; each ascending.

    Chosen at random once and for all: a function of size and share only, so that all members of an ensemble leave out
    the same inputs.
    """
    if not 0 <= share < 1:
        raise InputError(f"holdout must be a share in [0, 1) of the training data, got {share}")
    count = int(share * size)
    order = torch.randperm(size, generator=generator(0, "train", "hold out", size)).tolist()
    return sorted(order[count:]), sorted(order[:count])


@torch.no_grad()
def noisy_accuracy(
    model: nn.Module,
    data: Data | TrainingData,
    noise: Noise,
    *,
    seed: int = 0,
    scores: Callable[[nn.Module, Tensor], Tensor] = lambda model, x: model(x),
) -> float:
    """The share of inputs that `model` gets right, by `scores`, under one draw of noise each, which `seed` decides."""
    given, device = training_data(data), device_of(model)
    right = torch.zeros((), dtype=torch.int64, device=device)
    with evaluating(model):
        for number, rows in enumerate(torch.split(torch.arange(len(given)), ROWS)):
            x, y = given.batch(rows)
            noisy = noise.draw(x.to(device), generator(seed, "train", "validate", number, device))
            right += (scores(model, noisy).argmax(1) == y.to(device)).sum()
    return int(right) / len(given)
