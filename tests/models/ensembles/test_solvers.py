"""Both convex problems against an oracle that knows nothing of how they are solved."""

import numpy as np
import pytest
from scipy.optimize import minimize

from smoothcert.models.ensembles.solvers import Array, minimum_variance, mixture


def oracle(objective, gradient, k: int) -> Array:  # type: ignore[no-untyped-def]
    """SLSQP on the simplex."""
    found = minimize(
        objective, np.full(k, 1 / k), jac=gradient, bounds=[(0, 1)] * k, method="SLSQP",
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(k)},
        options={"maxiter": 2000, "ftol": 1e-15},
    )  # fmt: skip
    return np.asarray(found.x)


@pytest.mark.parametrize(("k", "seed"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (10, 0), (10, 1), (10, 2), (50, 1)])
def test_mixture_weights_are_the_optimum(k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    G = rng.beta(2, 1 + rng.random(k), size=(300, k)) * rng.random((300, 1)) + 1e-12
    w, gap = mixture(G)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1, abs=1e-12)
    assert gap <= 1e-8

    def objective(v: Array) -> float:
        return -float(np.log(G @ v).mean())

    other = oracle(objective, lambda v: -(G / (G @ v)[:, None]).mean(axis=0), k)
    assert objective(w) <= objective(other) + 1e-8
    assert np.abs(w - other).max() < 1e-4  # where SLSQP stops; the objective is flat there
    assert abs(objective(w) - objective(other)) < 1e-6


def test_mixture_weights_of_degenerate_members() -> None:
    """Identical members, one that dominates, one that is never right, and rows that nobody gets right."""
    rng = np.random.default_rng(0)
    good = rng.uniform(0.5, 1, 200)
    w, gap = mixture(np.stack([good, good, good], 1))
    assert gap <= 1e-8
    w, gap = mixture(np.stack([good, good * 0.9], 1))
    assert (w[0], gap) == (pytest.approx(1, abs=1e-7), pytest.approx(0, abs=1e-8))
    w, gap = mixture(np.stack([good, np.full(200, 1e-300)], 1))
    assert (w[0], gap) == (pytest.approx(1, abs=1e-7), pytest.approx(0, abs=1e-8))
    hopeless = np.where(np.arange(200)[:, None] < 20, 1e-300, np.stack([good, 1.2 - good], 1))
    w, gap = mixture(hopeless)
    assert gap <= 1e-8
    assert np.isfinite(w).all()


def closed_form(b: float, cov: float, d: float) -> float:
    """w_1 of two members: the minimum of b w^2 + 2 cov w (1-w) + d (1-w)^2 on [0, 1]."""
    A, B = b - 2 * cov + d, 2 * cov - 2 * d
    if A <= 0:
        return 1.0 if A + B < 0 else 0.0
    return float(np.clip(-B / (2 * A), 0, 1))


@pytest.mark.parametrize("seed", range(20))
def test_minimum_variance_of_two_members_is_the_closed_form(seed: int) -> None:
    root = np.random.default_rng(seed).normal(size=(2, 2))
    Q = root @ root.T
    w, gap = minimum_variance(Q)
    assert w[0] == pytest.approx(closed_form(Q[0, 0], Q[0, 1], Q[1, 1]), abs=1e-9)
    assert gap < 1e-9


@pytest.mark.parametrize("k", [2, 3, 5, 10, 50])
@pytest.mark.parametrize("seed", range(3))
def test_minimum_variance_of_any_number_is_the_optimum(k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=(500, 1)), rng.normal(size=(500, k)) * rng.uniform(0.5, 2, k)
    Q = np.cov((shared * rng.uniform(0.5, 1.5, k) + own).T) * 10.0 ** rng.integers(-6, 6)
    w, gap = minimum_variance(Q)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1, abs=1e-12)
    assert gap < 1e-9
    scale = np.trace(Q) / k
    other = oracle(lambda v: float(v @ Q @ v) / scale, lambda v: 2 * Q @ v / scale, k)
    assert w @ Q @ w <= other @ Q @ other * (1 + 1e-9)
    assert np.abs(w - other).max() < 1e-5


def test_minimum_variance_against_every_point_of_a_grid() -> None:
    root = np.random.default_rng(5).normal(size=(3, 3))
    Q = root @ root.T
    w, _ = minimum_variance(Q)
    grid = np.array([(a, b, 1 - a - b) for a in np.arange(0, 1.001, 0.01) for b in np.arange(0, 1.001 - a, 0.01)])
    values = np.einsum("na,ab,nb->n", grid, Q, grid)
    assert w @ Q @ w <= values.min() + 1e-12
    assert np.abs(grid[values.argmin()] - w).max() < 0.02


def test_members_that_are_the_same_or_never_vary() -> None:
    w, gap = minimum_variance(np.ones((4, 4)))
    assert (w.sum(), gap) == (pytest.approx(1), pytest.approx(0, abs=1e-9))
    w, gap = minimum_variance(np.zeros((3, 3)))
    assert w.tolist() == pytest.approx([1 / 3] * 3)
