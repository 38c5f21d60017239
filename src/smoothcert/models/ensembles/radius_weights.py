"""Ensemble weights that maximise the measure itself, on hold-out data: a robustness index of estimated radii.

Equation 12 of SWEEN (Liu et al. 2021) is about the soft function, and a certificate counts hard votes: the more
confident member takes all the weight. Here, for weights w, input i and draw j, the margin is the weighted score of the
label less the best other one; p_i = mean_j sigmoid(beta margin_ij) stands for the share of votes, smooth enough to
compare weights on few draws; and the index is mean_i gamma(R(p_i)), R the radius of the noise. Ours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from smoothcert.core.errors import InputError
from smoothcert.models.ensembles.solvers import Array
from smoothcert.noise import Noise

Gamma = Callable[[float], float]

BETA = 32.0
"""Of margins in units of their own standard deviation over all draws of equal weights: nearly a vote."""

MOST = float(0.001 ** (1 / 100_000))
"""The largest share of votes that a usual certificate (n = 100_000, alpha = 0.001) can show."""

MOST_SIGNED = 3.0
"""The largest sum of the sizes of signed weights, whose sum is one: they would go on growing as their sum goes to 0."""

STEPS = (0.5, 0.25, 0.12, 0.06, 0.03, 0.015)


def radius_weights(
    scores: NDArray[np.float32], y: NDArray[np.int64], noise: Noise, gamma: Gamma, *, signed: bool
) -> tuple[Array, float]:
    """Weights that sum to one, and their index, of scores (N, draws, k, C) of hold-out inputs with labels y (N,).

    A search along one member's weight at a time, from equal weights, with steps that halve: gamma may be any function,
    also one that jumps. The index of what is found is never below that of equal weights.
    """
    k = scores.shape[2]
    rows, others = scores.transpose(2, 0, 1, 3), np.ones((len(y), 1, scores.shape[3]), dtype=bool)
    others[np.arange(len(y)), 0, y] = False

    def margins(w: Array) -> Array:
        mixed = np.tensordot(w.astype(np.float32), rows, axes=1)  # (N, draws, C)
        own = np.take_along_axis(mixed, y[:, None, None], axis=2)[:, :, 0]
        best: Array = (own - np.where(others, mixed, -np.inf).max(axis=2)).astype(np.float64)
        return best  # (N, draws)

    equal = np.full(k, 1 / k)
    spread = float(margins(equal).std())
    scale = BETA / spread if spread > 0 else BETA

    def index(w: Array) -> float:
        shares = special.expit(scale * margins(w)).mean(axis=1)
        return robustness(shares, noise, gamma)

    best, most = equal, index(equal)
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for member in range(k):
                for move in (step, -step):
                    tried = _moved(best, member, move, signed=signed)
                    if tried is not None and (found := index(tried)) > most:
                        best, most, improved = tried, found, True
    return best, most


def robustness(shares: Array, noise: Noise, gamma: Gamma) -> float:
    """The mean of gamma(radius) over inputs whose label has these shares of the votes; 0 where it has no majority."""
    values = [float(gamma(noise.radius(min(float(p), MOST)))) if p > 0.5 else 0.0 for p in shares]
    if not all(0 <= value < np.inf for value in values):
        raise InputError("gamma must map radii to non-negative finite numbers")
    return float(np.mean(values))


def _moved(w: Array, member: int, step: float, *, signed: bool) -> Array | None:
    """One member's weight changed, and the sum put back to one; None where nothing is left to change or to share."""
    moved = w.copy()
    moved[member] += step
    if not signed:
        moved = np.maximum(moved, 0.0)
    total = float(moved.sum())
    changed = not np.array_equal(moved, w)
    return moved / total if changed and total > 0 and np.abs(moved).sum() <= MOST_SIGNED * total else None
