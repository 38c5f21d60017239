"""Orthant probabilities against closed forms, SciPy and Monte Carlo."""

import numpy as np
import pytest
from scipy import stats

from smoothcert.analysis.orthant import orthant_probability
from smoothcert.core.errors import InputError


@pytest.mark.parametrize("m", [1, 2, 3, 9, 40])
def test_equicorrelated_by_a_half(m: int) -> None:
    """Without a mean and with correlations 1/2 it is 1/(m + 1): one of m + 1 independent numbers is the smallest."""
    p, error = orthant_probability(np.zeros((1, m)), (np.eye(m) + 1)[None] / 2)
    assert p[0] == pytest.approx(1 / (m + 1), abs=max(1e-12, 6 * error[0]))
    assert error[0] < 5e-4


def test_independent_and_two_dimensional() -> None:
    mean, deviation = np.array([[0.5, 1.0, -0.3, 2.0]]), np.array([1.0, 2.0, 0.5, 1.5])
    p, error = orthant_probability(mean, np.diag(deviation**2)[None])
    assert p[0] == pytest.approx(float(np.prod(stats.norm.cdf(mean[0] / deviation))), abs=1e-12)
    assert error[0] < 1e-12
    for rho in (-0.9, -0.2, 0.4, 0.99):
        p, error = orthant_probability(np.zeros((1, 2)), np.array([[[1, rho], [rho, 1]]]))
        assert p[0] == pytest.approx(0.25 + np.arcsin(rho) / (2 * np.pi), abs=6 * error[0] + 1e-9)


def test_against_monte_carlo() -> None:
    """Margins of 10 classes as they occur; a million draws have a standard error below 5e-4: five of it, and ours."""
    rng = np.random.default_rng(0)
    draws = 1_000_000
    mean, root = rng.uniform(0.2, 3, size=(4, 9)), rng.normal(size=(4, 9, 12)) / 3
    covariance = root @ root.transpose(0, 2, 1)
    p, error = orthant_probability(mean, covariance)
    assert (error < 5e-4).all()
    for i in range(4):
        z = mean[i] + rng.normal(size=(draws, 12)) @ root[i].T
        truth = float((z > 0).all(axis=1).mean())
        assert abs(p[i] - truth) < 5 * np.sqrt(truth * (1 - truth) / draws) + 6 * error[i]


def test_what_does_not_vary_and_what_is_sure() -> None:
    nothing = np.zeros((3, 2, 2))
    assert orthant_probability(np.array([[1.0, 2], [1, -1], [1, 0]]), nothing)[0].tolist() == [1, 0, 0]
    p, _ = orthant_probability(np.array([[1.0, 50.0]]), np.array([[[1.0, 0.9], [0.9, 1.0]]]))
    assert p[0] == pytest.approx(float(stats.norm.cdf(1.0)), abs=1e-12), "the second one cannot fail"
    same = np.array([[[1.0, 1.0], [1.0, 1.0]]])
    p, _ = orthant_probability(np.array([[0.5, 0.5]]), same)
    assert p[0] == pytest.approx(float(stats.norm.cdf(0.5)), abs=1e-4), "a singular covariance"
    tail, _ = orthant_probability(np.array([[5.0, 6.0]]), np.eye(2)[None])
    assert 1 - tail[0] == pytest.approx(float(stats.norm.cdf(-5) + stats.norm.cdf(-6)), rel=1e-6)


def test_equal_problems_have_equal_answers_wherever_they_stand() -> None:
    rng = np.random.default_rng(1)
    mean, root = rng.uniform(0, 2, size=(200, 5)), rng.normal(size=(200, 5, 5))
    covariance = root @ root.transpose(0, 2, 1)
    all_at_once, _ = orthant_probability(mean, covariance)
    alone, _ = orthant_probability(mean[150:151], covariance[150:151])
    assert all_at_once[150] == pytest.approx(alone[0], abs=1e-12)
    assert len(orthant_probability(np.empty((0, 3)), np.empty((0, 3, 3)))[0]) == 0
    with pytest.raises(InputError, match="mean must be"):
        orthant_probability(mean, covariance[:, 0])
