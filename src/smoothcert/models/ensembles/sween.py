"""Ensemble weights by risk minimisation on hold-out data (SWEEN, Liu et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.models.ensembles.sampling import check_holdout, label_probabilities
from smoothcert.models.ensembles.solvers import Array, mixture
from smoothcert.noise import Noise

EPOCHS, BATCH, LR, MOMENTUM, DECAY, DROPS = 150, 64, 0.01, 0.9, 5e-4, (60, 90)
"""Of the paper's gradient descent; the learning rate is a tenth from each of the drops on."""


@dataclass(frozen=True)
class Weights:
    """Weights that sum to one, one per member.

    Args:
        weights: in the order of the members.
        method: how they were found.
        objective: what was minimised, at these weights.
        gap: no weights have an objective that is lower by more than this (Frank-Wolfe; for "minimum-variance" relative
            to the mean variance of the members).
        notes: what a reader should know, as sentences.
    """

    weights: tuple[float, ...]
    method: str
    objective: float
    gap: float
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All fields, JSON-able."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}


def sween_weights(
    members: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    noise: Noise,
    method: Literal["convex", "sgd"] = "convex",
    draws: int | None = None,
    seed: int = 0,
    apart_from: Tensor | None = None,
) -> Weights:
    """Weights for `SoftmaxVoting` and `EarlyExit` from hold-out inputs x (N, ...) with labels y (N,).

    "convex" minimises equation 12, -mean_i log sum_k w_k G[i, k], with G[i, k] the mean over `draws` (default 100) of
    member k's probability of the label; to the global optimum, with a gap below 1e-8. All members see the same noise;
    the paper draws for each anew, which only adds to the noise of their comparison.
    "sgd" is the paper's practice: gradient descent on w = softmax(v) from v = 0, one draw per input and epoch. The
    logarithm is then inside the mean over draws, and weight decay pulls towards equal weights: a little another
    problem, whose gap is reported. Both give nearly the same weights where draws of an input agree with each other.
    Where they do not, prefer "sgd" for members that are alike, such as seeds of one recipe: equation 12 has the mean
    over draws inside the logarithm, so it cannot see that members err on different draws, and may choose a single one,
    the most confident (`smoothcert study ensembles`).

    The paper takes a part of the training data that the members were not trained on (2000 of CIFAR-10). `apart_from`
    (M, ...) are inputs that must not be among x: those that were trained on, or will be certified.
    """
    if method not in ("convex", "sgd"):
        raise InputError(f"method must be 'convex' or 'sgd', got {method!r}")
    if method == "sgd" and draws is not None:
        raise InputError(f"draws does not go with method 'sgd', which takes one per epoch, got {draws}; leave it out")
    check_holdout(x, y, apart_from)
    count = EPOCHS if method == "sgd" else 100 if draws is None else draws
    p, _ = label_probabilities(members, x, y, noise, count, seed, f"sween {method}")  # (N, draws, k)
    p = np.maximum(p, np.finfo(np.float64).tiny)
    if method == "convex":
        likelihoods = p.mean(axis=1)
        w, gap = mixture(likelihoods)
    else:
        likelihoods = p.reshape(-1, len(members))
        w = _descend(p, seed)
        gap = max(0.0, float((likelihoods / (likelihoods @ w)[:, None]).mean(axis=0).max() - 1))
    loss = -float(np.log(likelihoods @ w).mean())
    return Weights(tuple(float(value) for value in w), f"sween-{method}", loss, gap)


def _descend(p: Array, seed: int) -> Array:
    """SGD on v, w = softmax(v); epoch e sees draw e of every input of p (N, epochs, k)."""
    seen = torch.from_numpy(p)
    v = torch.zeros(p.shape[2], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([v], lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, DROPS)
    for epoch in range(p.shape[1]):
        order = torch.randperm(len(seen), generator=generator(seed, "", "sween order", epoch))
        for rows in torch.split(order, BATCH):
            optimizer.zero_grad()
            loss = -(seen[rows, epoch] @ v.softmax(0)).log().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
    found: Array = v.detach().softmax(0).numpy()
    return found
