"""Convex problems over the simplex, solved with a certificate: the Frank-Wolfe gap bounds what is left to gain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

Array = NDArray[np.float64]

TOLERANCE = 1e-8


def mixture(likelihoods: Array) -> tuple[Array, float]:
    """The weights w of the simplex that minimise -mean_i log sum_k w_k G[i, k], G (n, k) positive; and the gap.

    Maximum likelihood of mixture weights. Its optimum on w >= 0 with sum(w) added to the objective sums to one by
    itself, so a Newton step is a least-squares problem with w >= 0; a step of expectation-maximisation follows, which
    never makes it worse and puts w back on the simplex.
    """
    G = likelihoods / likelihoods.max(axis=1, keepdims=True)  # a factor per row moves the objective by a constant
    k = G.shape[1]
    w = np.full(k, 1 / k)
    for _ in range(500):
        A = G / (G @ w)[:, None]
        a = A.mean(axis=0)  # minus the gradient; a @ w = 1
        if a.max() - 1 <= TOLERANCE:
            break
        w = _newton(G, A, a, w)
        w = w * (G / (G @ w)[:, None]).mean(axis=0)
        w /= w.sum()
    return w, max(0.0, float((G / (G @ w)[:, None]).mean(axis=0).max() - 1))


def _newton(G: Array, A: Array, a: Array, w: Array) -> Array:
    """The minimum of the quadratic model over w >= 0, or as far in its direction as the objective follows."""
    H = A.T @ A / len(A)
    ridge = 1e-10 * float(np.trace(H)) / len(w)
    try:
        L = cholesky(H + ridge * np.eye(len(w)), lower=True)
        target, _ = nnls(L.T, solve_triangular(L, 2 * a - 1 + ridge * w, lower=True))
    except (np.linalg.LinAlgError, RuntimeError):  # members that are almost the same
        return w
    step: Array = target - w

    def objective(v: Array) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.log(G @ v).mean() + v.sum()

    here, slope, t = objective(w), float((1 - a) @ step), 1.0
    while t > 1e-9:
        if objective(w + t * step) <= here + 1e-4 * t * slope:
            return w + t * step
        t /= 2
    return w


def minimum_variance(Q: Array) -> tuple[Array, float]:
    """The weights w of the simplex that minimise w'Qw, Q (k, k) positive semidefinite; and the gap, relative.

    min |Lw|^2 + (1'w - 1)^2 over w >= 0, L'L = Q, has the same direction: along w = t u it is q/(1 + q) with q = u'Qu.
    """
    k = len(Q)
    scale = float(np.trace(Q)) / k
    if not scale > 0:
        return np.full(k, 1 / k), 0.0
    values, vectors = np.linalg.eigh((Q + Q.T) / (2 * scale))
    L = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    found, _ = nnls(np.vstack([L, np.ones(k)]), np.append(np.zeros(k), 1.0), maxiter=100 * k)
    w = found / found.sum()
    gradient = L.T @ (L @ w)
    return w, max(0.0, float(2 * (w @ gradient - gradient.min())))


def best_ratio(mean: Array, Q: Array) -> tuple[Array, float]:
    """The weights w of the simplex that maximise mean'w / sqrt(w'Qw), Q (k, k) positive definite; and that ratio.

    min |Lw|^2 + (mean'w - 1)^2 over w >= 0, L'L = Q, has the same direction: along w = t u it is q / (q + m^2) with
    q = u'Qu and m = mean'u > 0. Where no mean is positive all weigh the same, and the ratio is what it is.
    """
    k = len(Q)
    w = np.full(k, 1 / k)
    if (mean > 0).any():
        scale = float(np.trace(Q)) / k  # so that both terms are of one size
        L = cholesky(Q / scale, lower=False)
        found, _ = nnls(np.vstack([L, mean / np.abs(mean).max()]), np.append(np.zeros(k), 1.0), maxiter=100 * k)
        w = found / found.sum()
    return w, float(mean @ w / np.sqrt(w @ Q @ w))
