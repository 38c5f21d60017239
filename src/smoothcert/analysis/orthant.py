"""The probability that all coordinates of a Gaussian vector are positive: equation 4 of Horvath et al. 2022.

By separation of variables (Genz 1992): the integral becomes one over the unit cube, whose mean over scrambled Sobol
points is taken. Independent scramblings give a standard error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special, stats

Array = NDArray[np.float64]

POINTS, SCRAMBLINGS = 512, 8
SURE = 8.0
"""Standard deviations: a coordinate whose mean is so far above 0 fails with probability below 1e-15; it is left out."""
RIDGE = 1e-10  # on the diagonal of a correlation matrix: members and draws may be fewer than classes
BLOCK = 1 << 22  # numbers held at once: 32 MB


def orthant_probability(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """P(z > 0 in every coordinate) for z ~ N(mean, covariance), and its standard error, for each of P problems.

    Takes (P, m) and (P, m, m), gives (P,) and (P,). A coordinate without variance is what its mean is; one at 0 is not
    positive. Equal problems have equal answers, and the points are the same for all: differences between neighbouring
    problems are more precise than either.
    """
    mean, covariance = np.asarray(mean, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    if mean.ndim != 2 or covariance.shape != (*mean.shape, mean.shape[1]):
        raise InputError(f"mean must be (P, m) and covariance (P, m, m), got {mean.shape} and {covariance.shape}")
    bounds, correlation = _standardised(mean, covariance)
    order = np.argsort(bounds, axis=1, kind="stable")  # what fails most goes first: less is left to vary
    bounds = np.take_along_axis(bounds, order, axis=1)
    correlation = np.take_along_axis(np.take_along_axis(correlation, order[:, :, None], 1), order[:, None, :], 2)
    many = max(1, BLOCK // (POINTS * SCRAMBLINGS * max(1, mean.shape[1])))
    parts = [_part(bounds[i : i + many], correlation[i : i + many]) for i in range(0, len(mean), many)]
    shares = np.concatenate(parts) if parts else np.empty((0, SCRAMBLINGS))  # (P, scramblings)
    return shares.mean(axis=1), shares.std(axis=1, ddof=1) / np.sqrt(SCRAMBLINGS)


def _standardised(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Means in standard deviations, (P, m), infinite without variance, and correlations, (P, m, m)."""
    deviation = np.sqrt(np.maximum(np.einsum("pii->pi", covariance), 0.0))
    varies = deviation > 0
    scale = np.where(varies, deviation, 1.0)
    bounds = np.where(varies, mean / scale, np.where(mean > 0, np.inf, -np.inf))
    correlation = covariance / scale[:, :, None] / scale[:, None, :]
    correlation = np.where(varies[:, :, None] & varies[:, None, :], correlation, 0.0)
    diagonal = np.eye(mean.shape[1], dtype=bool)
    return bounds, np.where(diagonal, 1.0, correlation / (1 + RIDGE))


def _part(bounds: Array, correlation: Array) -> Array:
    """The mean over the points of each scrambling, (P, scramblings); bounds ascend."""
    kept = max(1, int((bounds < SURE).sum(axis=1).max(initial=0)))
    bounds, factor = bounds[:, :kept], np.linalg.cholesky(correlation[:, :kept, :kept])
    points = _points(kept)  # (all points, kept)
    drawn = np.empty((len(bounds), len(points), kept))
    product = np.ones((len(bounds), len(points)))
    for i in range(kept):
        reached = np.einsum("pnj,pj->pn", drawn[:, :, :i], factor[:, i, :i])
        share = special.ndtr((bounds[:, i, None] - reached) / factor[:, i, i, None])
        product *= share
        tiny = np.finfo(np.float64).tiny
        drawn[:, :, i] = special.ndtri(np.clip(points[:, i] * share, tiny, 1 - np.finfo(np.float64).epsneg))
    means: Array = product.reshape(len(bounds), SCRAMBLINGS, POINTS).mean(axis=2)
    return means


def _points(dimension: int) -> Array:
    """Sobol points of all scramblings, one after another: (scramblings * points, dimension)."""
    each = [stats.qmc.Sobol(dimension, seed=seed).random(POINTS) for seed in range(SCRAMBLINGS)]
    return np.concatenate(each)
