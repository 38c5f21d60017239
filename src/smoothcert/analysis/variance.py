"""Why ensembles help, and how many members are worth it: variance of margins under noise, from sampled logits.

Horvath et al. 2022, section 5: the margin z_i = y_top - y_i of a member splits into a part that training decides (its
mean over noise, as in their appendix D) and a part that noise decides. Averaging k members that are correlated by zeta
leaves (1 + zeta (k - 1))/k of a variance. Liu et al. 2023, section 3.2: alpha_i, beta_i tell whether mixing helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcert.analysis.orthant import orthant_probability
from smoothcert.analysis.outcome_law import expected_radius
from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special

Array = NDArray[np.float64]

MOST_RIVALS = 99  # classes whose margins are integrated together; of more classes the rest hardly ever matters


@dataclass(frozen=True)
class Components:
    """The model of one input's margins over the C - 1 other classes, for N inputs.

    Args:
        top: predicted class, (N,).
        mean: c_top - c_i, over members and noise, (N, C - 1).
        clean: variance over trainings of a member's mean margin, (N, C - 1): what another training would change.
        noise: variance under noise of one member, the mean over members, (N, C - 1).
        zeta_p: the median ratio of the covariance under noise of two members to it; 1 for a single member.
        zeta_c: how much of `clean` members have in common; see `clean_correlation`.
        rivals: the other classes that come nearest, at most `MOST_RIVALS`, as columns of the above: (N, r).
        clean_covariance, noise_covariance: of the margins over the rivals, (N, r, r).
    """

    top: NDArray[np.int64]
    mean: Array
    clean: Array
    noise: Array
    zeta_p: float
    zeta_c: float
    rivals: NDArray[np.int64]
    clean_covariance: Array
    noise_covariance: Array

    def variance(self, size: int) -> Array:
        """Var(z_i) of an ensemble of so many members, trained anew (equation 3): (N, C - 1)."""
        return variance_ratio(self.zeta_c, size) * self.clean + variance_ratio(self.zeta_p, size) * self.noise

    def success(self, size: int) -> Array:
        """p_A of an ensemble of so many members for Gaussian margins, the orthant integral of equation 4: (N,).

        Over noise and trainings, as in the paper. Classes that are no rivals are taken off by the union bound.
        """
        covariance = (
            variance_ratio(self.zeta_c, size) * self.clean_covariance
            + variance_ratio(self.zeta_p, size) * self.noise_covariance
        )
        p, _ = orthant_probability(np.take_along_axis(self.mean, self.rivals, axis=1), covariance)
        misses = special.ndtr(-_standard(self.mean, self.variance(size)))
        np.put_along_axis(misses, self.rivals, 0.0, axis=1)
        bound: Array = np.maximum(0.0, p - misses.sum(axis=1))
        return bound


def components(logits: Array) -> Components:
    """Estimate the model from logits (N, draws, k, C) of k members under the same noise."""
    top, z = margins(logits)  # (N, draws, k, C - 1)
    draws, k = z.shape[1:3]
    means = z.mean(axis=1)  # (N, k, C - 1)
    centred = z - means[:, None]
    noise = (centred**2).sum(axis=1).mean(axis=1) / (draws - 1)
    whole = (centred.mean(axis=2) ** 2).sum(axis=1) / (draws - 1)  # of the mean of all members
    shared = (k * whole - noise) / (k - 1) if k > 1 else noise
    zeta_p = _median_ratio(shared, noise) if k > 1 else 1.0
    own = (noise - shared) / draws  # what a mean over so many draws still has of the noise that a member has alone
    zeta_c = clean_correlation(means, noise, own).zeta
    clean = np.maximum(0.0, means.var(axis=1, ddof=1) - own) / (1 - zeta_c) if k > 1 else np.zeros_like(noise)
    mean = means.mean(axis=1)
    order = np.argsort(_standard(mean, clean + noise), axis=1, kind="stable")
    rivals = order[:, :MOST_RIVALS]
    near = np.take_along_axis(centred, rivals[:, None, None, :], axis=3)
    noise_covariance = np.einsum("ndli,ndlj->nij", near, near) / (draws - 1) / k
    apart = np.take_along_axis(means - mean[:, None], rivals[:, None, :], axis=2)  # (N, k, r)
    between = np.einsum("nli,nlj->nij", apart, apart) / max(1, k - 1)
    # The same correction as of the variances, in proportion, so that the matrix stays a covariance.
    variances = np.take_along_axis(clean, rivals, axis=1)
    raw = np.einsum("nii->ni", between)
    scale = np.sqrt(np.divide(variances, raw, out=np.zeros_like(raw), where=raw > 0))
    clean_covariance = scale[:, :, None] * between * scale[:, None, :]
    return Components(top, mean, clean, noise, zeta_p, zeta_c, rivals, clean_covariance, noise_covariance)


class Kinship(NamedTuple):
    """zeta_c, and for each half of the inputs pairs of members (as of `np.triu_indices`) that count as unrelated.

    The last number is what the squared distances of such pairs are to be multiplied by to be those of usual members.
    """

    zeta: float
    unrelated: tuple[tuple[slice, NDArray[np.int64], float], ...] = ()


def clean_correlation(means: Array, noise: Array, own: Array) -> Kinship:
    """zeta_c: the mean correlation over trainings of what two members have learned, from mean margins (N, k, C - 1).

    The paper's ratio of inter- to intra-classifier covariance is -1/(k-1) for any k members, whatever they are, if c is
    their own mean ("about 0" at its k = 50): what all of them share cannot be told from c. What can be told is whether
    some pairs are nearer to one another than others. Half the squared distance of two members is the mean of their
    variances less their covariance. Where members are unrelated it is a sum a_i + a_j, which is fitted; the quarter of
    the pairs that are farthest apart compared with it is taken for unrelated. So members of independent seeds have 0,
    also if some vary more than others, and snapshots of the same trainings, or several kinds, have more. Pairs are
    chosen on one half of the inputs and measured on the other, both ways: the largest of noisy distances would be too
    large. With fewer than 4 members or 4 inputs nothing can be told, and it is 0.

    `noise` is the variance under noise, by which inputs are made comparable, and `own` the part of the variance of a
    mean that more draws would remove, both (N, C - 1).
    """
    inputs, k = means.shape[:2]
    if k < 4 or inputs < 4:
        return Kinship(0.0)
    weight = np.divide(1.0, noise, out=np.zeros_like(noise), where=noise > 0)
    rows, columns = np.triu_indices(k, 1)
    pairs, halves = list(zip(rows, columns, strict=True)), (slice(0, None, 2), slice(1, None, 2))
    apart = np.array([
        [float((weight[half] * ((means[half, a] - means[half, b]) ** 2 / 2 - own[half])).sum()) for a, b in pairs]
        for half in halves
    ])  # (2, pairs)  # fmt: skip
    of_member = np.array([[half[(rows == i) | (columns == i)].sum() for i in range(k)] for half in apart])
    a = (of_member - apart.sum(axis=1, keepdims=True) / (k - 1)) / (k - 2)  # least squares, (2, k)
    fitted = np.maximum(a[:, rows] + a[:, columns], np.finfo(np.float64).tiny)
    many = math.ceil(len(rows) / 4)
    first, second = (np.argsort(half, kind="stable")[-many:] for half in apart / fitted)
    far = float(apart[0, second].sum() + apart[1, first].sum())
    usual = float(fitted[0, second].sum() + fitted[1, first].sum())
    zeta = min(1 - 1 / len(rows), max(0.0, 1 - usual / far)) if far > 0 else 0.0
    chosen = zip(halves, (second, first), fitted, strict=True)
    return Kinship(zeta, tuple((half, which, float(fit.mean() / fit[which].mean())) for half, which, fit in chosen))


def _median_ratio(part: Array, whole: Array) -> float:
    """Within [0, 1]; 1 where nothing varies."""
    varies = whole > 0
    return float(np.clip(np.median(part[varies] / whole[varies]), 0, 1)) if varies.any() else 1.0


def _standard(mean: Array, variance: Array) -> Array:
    """Means in standard deviations; of what does not vary, infinite."""
    deviation = np.sqrt(np.maximum(variance, 0.0))
    return np.divide(mean, deviation, out=np.where(mean > 0, np.inf, -np.inf), where=deviation > 0)


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
        p = model.success(size)
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
