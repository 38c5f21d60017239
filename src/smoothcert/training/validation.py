"""Data that is kept out of training, and how good a base classifier is on it under noise."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import device_of, evaluating
from smoothcert.core.randomness import generator
from smoothcert.noise import Noise

Data = tuple[Tensor, Tensor]
"""Inputs (N, ...) and labels (N,)."""
ROWS = 256  # inputs per call


def check(name: str, data: Data) -> None:
    """Refuse data without inputs, with another number of labels, or with other numbers than a model is trained on."""
    x, y = data
    if len(x) != len(y) or not len(x):
        raise InputError(
            f"{name} must be as many labels as inputs, at least one, got {len(x)} inputs and {len(y)} labels"
        )
    if x.dtype != torch.float32:
        raise InputError(
            f"inputs of {name} must be float32, got {x.dtype}; give x.float(), or x.float() / 255 for images of 8 bits"
        )
    if y.dtype != torch.int64 or y.dim() != 1 or int(y.min()) < 0:
        least = "" if y.dtype.is_complex or y.is_floating_point() else f", the least {int(y.min())}"
        raise InputError(
            f"labels of {name} must be int64 numbers of classes from 0, (N,), got {y.dtype} {tuple(y.shape)}{least}"
        )
    if x.numel() and not bool(torch.stack(x.aminmax()).isfinite().all()):
        raise InputError(f"inputs of {name} must be finite, but there are infinite or nan ones; leave them out")


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


@torch.inference_mode()
def noisy_accuracy(
    model: nn.Module,
    data: Data,
    noise: Noise,
    *,
    seed: int = 0,
    scores: Callable[[nn.Module, Tensor], Tensor] = lambda model, x: model(x),
) -> float:
    """The share of inputs that `model` gets right, by `scores`, under one draw of noise each, which `seed` decides."""
    x, y = data
    device = device_of(model)
    right = torch.zeros((), dtype=torch.int64, device=device)
    with evaluating(model):
        for number, rows in enumerate(torch.split(torch.arange(len(x)), ROWS)):
            noisy = noise.draw(x[rows].to(device), generator(seed, "train", "validate", number, device))
            right += (scores(model, noisy).argmax(1) == y[rows].to(device)).sum()
    return int(right) / len(x)
