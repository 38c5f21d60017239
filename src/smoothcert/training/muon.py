"""Muon: steps of equal length in every direction of a matrix, for matrices and convolutions alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.errors import InputError

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Jordan's quintic a s + b s^3 + c s^5, which takes singular values to about 1 (.7 to 1.2) in five steps."""


class Muon(torch.optim.Optimizer):
    """Momentum whose steps are orthogonalised (Jordan et al. 2024): as far along weak directions as along strong ones.

    A weight with two or more axes is one matrix, (outputs, everything else); the optimiser of this name in torch takes
    matrices alone. All singular values of a step are about `lr`, times sqrt(outputs / inputs) where that is above 1.
    Every step also takes `lr * weight_decay` of a weight away, which holds its singular values near 1 if the decay is
    about lr / 2: a rate or decay meant for SGD does not fit. Biases and gains take steps of SGD with Nesterov's
    momentum, at the same `lr` and without decay. Departures: Jordan et al. leave these, and the first and last layers,
    to AdamW, and compute in bfloat16.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 0.05,
        momentum: float = 0.95,
        weight_decay: float = 0.025,
    ) -> None:
        if not 0 < lr < math.inf or not 0 <= momentum < 1 or not 0 <= weight_decay < math.inf:
            raise InputError(
                "lr of Muon must be positive, momentum lie in [0, 1) and weight_decay be at least 0, "
                f"got {lr}, {momentum} and {weight_decay}"
            )
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step along what `backward` left; a parameter without a gradient stays as it is."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.numel():
                    self._move(parameter, group["lr"], group["momentum"], group["weight_decay"])
        return loss

    def _move(self, parameter: Tensor, lr: float, momentum: float, decay: float) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        buffer = state["momentum_buffer"]
        if parameter.dim() < 2:
            buffer.mul_(momentum).add_(gradient)
            parameter.add_(gradient + momentum * buffer, alpha=-lr)
            return
        buffer.lerp_(gradient, 1 - momentum)
        along = gradient.lerp(buffer, momentum)
        matrix = along.flatten(1)
        scale = math.sqrt(max(1.0, matrix.shape[0] / matrix.shape[1]))
        parameter.mul_(1 - lr * decay).add_(orthogonalised(matrix).view(along.shape), alpha=-lr * scale)


def orthogonalised(matrix: Tensor, steps: int = 5) -> Tensor:
    """About U V^T of matrix = U S V^T, (M, N), by Newton-Schulz steps; what is next to nothing vanishes."""
    a, b, c = NEWTON_SCHULZ
    wide = matrix.float()
    wide = wide / wide.norm().clamp_min(1e-7)
    tall = matrix.shape[0] > matrix.shape[1]
    wide = wide.T if tall else wide
    for _ in range(steps):
        gram = wide @ wide.T
        wide = a * wide + (b * gram + c * gram @ gram) @ wide
    found: Tensor = wide.T if tall else wide
    return found.to(matrix.dtype)
