"""Why ensembles help, and how many members are worth it: variance of margins under noise, from sampled logits.

Horvath et al. 2022, section 5: the margin z_i = y_top - y_i of a member splits into a part that training decides (its
mean over noise, as in their appendix D) and a part that noise decides. Averaging k members that are correlated by zeta
leaves (1 + zeta (k - 1))/k of a variance. Liu et al. 2023, section 3.2: alpha_i, beta_i tell whether mixing helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special, stats

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Components:
    """The model of one input's margins over the C - 1 other classes, for N inputs: (N, C - 1) arrays.

    Args:
        top: predicted class, (N,).
        mean: c_top - c_i, over members and noise.
        clean: variance between members of their mean margins: what another training seed would change.
        noise: variance under noise of one member, the mean over members.
        shared: covariance under noise of two members, the mean over pairs.
        zeta_p: the median of shared / noise; 1 for a single member.
        zeta_c: 0. With c the mean of the k members at hand, the paper's ratio is -1/(k-1) whatever they are (its "about
            0" at k = 50); members of independent seeds are uncorrelated given the input, which is what 0 says.
    """

    top: NDArray[np.int64]
    mean: Array
    clean: Array
    noise: Array
    shared: Array
    zeta_p: float
    zeta_c: float = 0.0

    def variance(self, size: int) -> Array:
        """Var(z_i) of an ensemble of so many members, trained anew (equation 3): (N, C - 1)."""
        return variance_ratio(self.zeta_c, size) * self.clean + variance_ratio(self.zeta_p, size) * self.noise


def components(logits: Array) -> Components:
    """Estimate the model from logits (N, draws, k, C) of k members under the same noise."""
    top, z = margins(logits)  # (N, draws, k, C - 1)
    draws, k = z.shape[1:3]
    centred = z - z.mean(axis=1, keepdims=True)
    noise = (centred**2).sum(axis=1).mean(axis=1) / (draws - 1)
    whole = (centred.mean(axis=2) ** 2).sum(axis=1) / (draws - 1)  # of the mean of all members
    shared = (k * whole - noise) / (k - 1) if k > 1 else noise
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = shared / noise
    zeta = float(np.clip(np.median(ratios[np.isfinite(ratios)]), 0, 1)) if np.isfinite(ratios).any() else 1.0
    means = z.mean(axis=1)  # (N, k, C - 1)
    clean = means.var(axis=1, ddof=1) if k > 1 else np.zeros_like(noise)
    return Components(top, means.mean(axis=1), clean, noise, shared, zeta if k > 1 else 1.0)


def margins(logits: Array) -> tuple[NDArray[np.int64], Array]:
    """The class with the largest mean logit per input, (N,), and its margins over the others, (N, draws, k, C - 1)."""
    if logits.ndim != 4 or logits.shape[1] < 2 or logits.shape[3] < 2:
        raise InputError(f"logits must be (inputs, draws >= 2, members, classes >= 2), got shape {logits.shape}")
    top = logits.mean(axis=(1, 2)).argmax(axis=1)
    at_top = np.take_along_axis(logits, top[:, None, None, None], axis=3)
    others = np.array([[c for c in range(logits.shape[3]) if c != t] for t in top])  # (N, C - 1)
    return top.astype(np.int64), at_top - np.take_along_axis(logits, others[:, None, None, :], axis=3)


def variance_ratio(zeta: float, size: int) -> float:
    """sigma^2(k)/sigma^2(1) = (1 + zeta (k - 1))/k (equation 3); it falls to zeta."""
    return (1 + zeta * (size - 1)) / size


def measured_ratio(logits: Array, size: int) -> float:
    """The same from the first `size` members: median over inputs and classes of Var(mean margin)/mean Var(margin)."""
    z = margins(logits)[1][:, :, :size]
    alone = z.var(axis=1).mean(axis=1)
    together = z.mean(axis=2).var(axis=1)
    return float(np.median(together[alone > 0] / alone[alone > 0])) if (alone > 0).any() else 1.0


def chebyshev(mean: Array, variance: Array) -> Array:
    """A lower bound of p_A for any distribution: 1 - sum_i Var(z_i)/mean_i^2 (equation 5), 0 without a margin: (N,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        misses = np.where(mean > 0, variance / mean**2, np.inf).sum(axis=1)
    bound: Array = np.maximum(0.0, 1 - misses)
    return bound


def gaussian_success(mean: Array, variance: Array) -> Array:
    """p_A for Gaussian margins, from below: equation 4 by the union bound, 1 - sum_i Phi(-mean_i/sd_i): (N,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = np.where(variance > 0, mean / np.sqrt(variance), np.sign(mean) * np.inf)
    bound: Array = np.maximum(0.0, 1 - special.ndtr(-np.nan_to_num(standard, nan=0.0)).sum(axis=1))
    return bound


def expected_radius(p: Array, sigma: float, *, n: int, alpha: float) -> Array:
    """The mean radius that Cohen's certification reports where the truth is p (equation 6), for each of p (N,)."""
    votes = np.arange(n // 2 + 1, n + 1)
    lower = special.betaincinv(votes, n - votes + 1, alpha)
    radii = np.where(lower > 0.5, sigma * special.ndtri(np.maximum(lower, 0.5)), 0.0)
    return np.array([float(stats.binom.pmf(votes, n, one) @ radii) for one in np.asarray(p)])


def mixing(logits: Array) -> tuple[Array, Array]:
    """alpha_i, the largest variance of a member, and beta_i, the largest covariance of two members: (N, C - 1).

    Var(z_i) of k equal weights is at most beta_i + (alpha_i - beta_i)/k (its equation 6): more members help where
    alpha_i > beta_i, and mixed kinds of members help by a smaller beta_i.
    """
    _, z = margins(logits)
    k = z.shape[2]
    if k < 2:
        raise InputError(f"alpha_i and beta_i need at least 2 members, got {k}")
    centred = z - z.mean(axis=1, keepdims=True)
    covariance = np.einsum("ndli,ndmi->nilm", centred, centred) / (z.shape[1] - 1)
    alpha = np.diagonal(covariance, axis1=2, axis2=3).max(axis=2)
    off = np.where(np.eye(k, dtype=bool), -np.inf, covariance)
    return alpha, off.max(axis=(2, 3))


def consensus_rate(logits: Array, k: int) -> float:
    """KCR: the share of draws on which the first k members answer the same class."""
    answers = logits[:, :, :k].argmax(axis=3)
    return float((answers == answers[:, :, :1]).all(axis=2).mean())


@dataclass(frozen=True)
class Size:
    """What an ensemble of one size would bring, as the mean over the hold-out inputs, and what it would cost.

    `measured` and `accuracy` (under noise) are of the first members, where there are so many. Radii are of right
    answers, so that `radius` models the average certified radius. Evaluations are per draw: all members, or with
    K-consensus of the first two.
    """

    size: int
    predicted: float
    measured: float | None
    chebyshev: float
    p: float
    radius: float
    accuracy: float | None
    consensus: float


def plan(
    logits: Array, labels: NDArray[np.int64], sizes: Sequence[int], *, sigma: float, n: int, alpha: float
) -> list[Size]:
    """How many members? From logits (N, draws, k, C) of hold-out inputs, for sizes also beyond k."""
    if any(size < 1 for size in sizes):
        raise InputError(f"sizes must be at least 1, got {list(sizes)}")
    model, members = components(logits), logits.shape[2]
    right, rate = model.top == labels, consensus_rate(logits, min(2, members))
    out = []
    for size in sizes:
        variance = model.variance(size)
        p = gaussian_success(model.mean, variance)
        there = size <= members
        answers = logits[:, :, :size].mean(axis=2).argmax(axis=2)  # (N, draws)
        out.append(
            Size(
                size=size,
                predicted=variance_ratio(model.zeta_p, size),
                measured=measured_ratio(logits, size) if there else None,
                chebyshev=float(chebyshev(model.mean, variance).mean()),
                p=float(p.mean()),
                radius=float((expected_radius(p, sigma, n=n, alpha=alpha) * right).mean()),
                accuracy=float((answers == labels[:, None]).mean()) if there else None,
                consensus=min(2, size) + (1 - rate) * max(0, size - 2),
            )
        )
    return out
