"""The training loop: SGD with Nesterov momentum and a one-cycle schedule, on noisy copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothcert.errors import InputError
from smoothcert.noise.streams import generator
from smoothcert.objectives import Objective


@dataclass(frozen=True)
class Epoch:
    """What one pass over the data gave."""

    number: int  # from 1
    epochs: int
    loss: float


def train(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    objective: Objective,
    *,
    epochs: int,
    lr: float = 0.1,
    momentum: float = 0.9,
    weight_decay: float = 1e-4,
    batch_size: int = 128,
    seed: int = 0,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
) -> None:
    """Train `model` in place on data = (x (N, ...), y (N,)); evaluation mode when it ends.

    The learning rate goes up to `lr` over the first 30% of the steps and down to almost 0 (Smith & Topin 2019), so
    that few epochs suffice. The order of the data and all noise follow from `seed`.
    """
    x, y = data
    if len(x) != len(y) or not len(x):
        raise InputError(
            f"data must be as many labels as inputs, at least one, got {len(x)} inputs and {len(y)} labels"
        )
    if epochs < 1 or batch_size < 1 or not lr > 0:
        raise InputError(f"epochs, batch_size and lr must be positive, got {epochs}, {batch_size} and {lr}")
    device = next(model.parameters()).device
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # the same weights, faster convolutions
    optimizer = torch.optim.SGD(
        model.parameters(), lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=momentum > 0
    )
    steps = math.ceil(len(x) / batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=epochs * steps)
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(x), generator=generator(seed, "train", "order", epoch))
        noise = generator(seed, "train", "noise", epoch, device)
        total = torch.zeros((), device=device)
        for rows in torch.split(order, batch_size):
            loss = objective.loss(model, x[rows].to(device), y[rows].to(device), noise)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(rows)
        mean = float(total) / len(x)
        if not math.isfinite(mean):
            raise InputError(f"the loss became {mean} in epoch {epoch + 1}: training has diverged, lower lr (now {lr})")
        on_epoch(Epoch(epoch + 1, epochs, mean))
    model.eval()
