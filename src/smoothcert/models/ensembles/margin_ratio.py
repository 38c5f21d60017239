"""Ensemble weights for the largest mean over standard deviation of the margin under noise, of each input's own.

Ours, beside the weights of EsbRS (Liu et al. 2023), whose variances are also over perturbed copies of the members: a
certificate counts draws of the noise alone. Margins that are normal make the class win with probability
Phi(mean / deviation), and a Gaussian radius is sigma times that ratio; so it is what weights should maximise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import device_of, evaluating
from smoothcert.models.ensembles.sampling import noisy
from smoothcert.models.ensembles.solvers import Array, best_ratio
from smoothcert.models.ensembles.sween import Weights
from smoothcert.noise import Noise

RIDGE = 1e-3
"""Of the mean variance, added to every variance: few draws of members that are alike would tell nonsense."""


def margin_ratio_weights_per_input(
    members: Sequence[nn.Module], x: Tensor, *, noise: Noise, draws: int = 100, seed: int = 0
) -> list[Weights]:
    """Weights for `SoftmaxVoting` of each input x (N, ...), from `draws` noisy copies of it; labels are not used.

    The margin is the probability of the class that is most probable on average over members and draws, less that of
    the second one. Another classifier at every input: a certificate of it claims nothing about how a neighbour is
    answered, unless answers go through a memory. Where no member's mean margin is positive all weigh the same.
    """
    if draws < 2:
        raise InputError(f"draws must be at least 2, got {draws}")
    found: list[Weights] = []
    with torch.inference_mode(), evaluating(*members):
        for _, batch in noisy(x.float(), noise, draws, seed, "margin ratio"):
            scores = [member(batch.to(device_of(member), copy=True)).double().cpu() for member in members]
            every = torch.stack(scores, 1).softmax(2).view(-1, draws, len(members), scores[0].shape[1])
            found += [_solved(*margins(one)) for one in every.numpy()]
    return found


def margins(p: Array) -> tuple[Array, Array]:
    """Mean (k,) and covariance (k, k) of the members' margins, of probabilities p (draws, k, C) under one noise."""
    top, second = np.argsort(-p.mean(axis=(0, 1)), kind="stable")[:2]
    z = p[:, :, top] - p[:, :, second]  # (draws, k)
    return z.mean(axis=0), np.atleast_2d(np.cov(z, rowvar=False))


def _solved(mean: Array, covariance: Array) -> Weights:
    k = len(mean)
    size = max(float(np.trace(covariance)) / k, np.finfo(np.float64).tiny)
    w, ratio = best_ratio(mean, covariance + RIDGE * size * np.eye(k))
    notes = () if (mean > 0).any() else ("no member's mean margin is positive: all weigh the same",)
    return Weights(tuple(float(value) for value in w), "margin-ratio", -ratio, 0.0, notes)
