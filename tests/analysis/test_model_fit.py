"""Covariances and distributions of the model of members' logits, on logits whose truth is known."""

import numpy as np
import pytest

from smoothcert.analysis.model_fit import (
    Array,
    MemberLogits,
    clean_covariance,
    noise_covariance,
    normalised,
    normalised_cdf,
    parts_covariance,
)
from smoothcert.core.errors import InputError

C = 3
LEARNED = np.array([[1.0, 0.3, 0.0], [0.3, 0.8, -0.2], [0.0, -0.2, 0.6]])  # Sigma_c
ADDED = np.array([[2.0, -0.5, 0.2], [-0.5, 1.0, 0.0], [0.2, 0.0, 1.5]])  # Sigma_p


def simulated(inputs: int = 200, draws: int = 100, k: int = 6, zeta: float = 0.7, *, bent: float = 0.0) -> MemberLogits:
    """y = c + y_c of training + y_p of noise, shared to the degree zeta; noise adds `bent` of y_c in the mean."""
    rng = np.random.default_rng(0)
    a, b = np.linalg.cholesky(LEARNED), np.linalg.cholesky(ADDED)
    c = rng.normal(size=(inputs, 1, C))
    learned = rng.normal(size=(inputs, k, C)) @ a.T
    shared, own = rng.normal(size=(inputs, draws, 1, C)) @ b.T, rng.normal(size=(inputs, draws, k, C)) @ b.T
    added = np.sqrt(zeta) * shared + np.sqrt(1 - zeta) * own
    clean = c + learned
    noisy = (clean + bent * learned)[:, None] + added
    names = tuple(map(str, range(inputs)))
    return MemberLogits(noisy, clean, np.zeros(inputs, dtype=np.int64), names, 0.25)


def close(found: Array, wanted: Array, least: float = 0.12) -> bool:
    """Means over 200 inputs of squares of standard normals: errors of about 2% of the variances; five of it."""
    return bool(np.abs(found - wanted).max() < least)


def test_the_parts_are_found_and_uncorrelated() -> None:
    logits = simulated()
    for of_mean in (True, False):
        blocks = parts_covariance(logits, of_mean=of_mean)
        assert close(blocks.same, LEARNED, 0.15)
        assert close(blocks.other, ADDED)
        assert close(blocks.cross, np.zeros((C, C)), 0.05)
    assert np.allclose(parts_covariance(logits, of_mean=True).cross, 0), "by construction"
    assert blocks.matrix.shape == (2 * C, 2 * C)
    assert np.allclose(blocks.matrix, blocks.matrix.T)


def test_noise_that_bends_what_was_learned_is_seen() -> None:
    """Where noise adds half of y_c in the mean, Cov(y_c, y_p) is half of Sigma_c."""
    cross = parts_covariance(simulated(bent=0.5), of_mean=False).cross
    assert close(cross, LEARNED / 2)


def test_members_share_noise_and_not_what_they_have_learned() -> None:
    logits = simulated()
    noise, clean = noise_covariance(logits), clean_covariance(logits)
    assert noise.zeta == pytest.approx(0.7, abs=0.03)
    assert close(noise.measured.same, ADDED)
    assert close(noise.measured.cross, 0.7 * ADDED)
    assert close(noise.modelled.cross, noise.zeta * noise.measured.same, 1e-12)
    assert clean.zeta < 0.06
    assert close(clean.measured.same, LEARNED, 0.2)
    assert close(clean.measured.cross, np.zeros((C, C)))


def test_the_normalised_law_is_that_of_few_gaussian_numbers() -> None:
    rng = np.random.default_rng(0)
    for count in (3, 6, 50):
        values = normalised(rng.normal(size=(40_000, count)), axis=1)
        assert np.abs(values).max() <= (count - 1) / np.sqrt(count) + 1e-9
        for t in (-1.5, -0.4, 0.0, 0.9, 1.1):
            # The numbers of one row are dependent: as if there were 40 000; five standard errors.
            assert float((values <= t).mean()) == pytest.approx(float(normalised_cdf(np.array(t), count)), abs=0.0125)
    assert normalised(np.ones((4, 5)), axis=1).size == 0, "what does not vary"


def test_what_does_not_fit_together_is_refused() -> None:
    logits = simulated(8, 4, 3)
    with pytest.raises(InputError, match="must be of the inputs, members and classes"):
        MemberLogits(logits.noisy, logits.clean[:, :2], logits.labels, logits.names, 0.25)
    with pytest.raises(InputError, match="at least 2 draws"):
        MemberLogits(logits.noisy[:, :1], logits.clean, logits.labels, logits.names, 0.25)
    alone = MemberLogits(logits.noisy[:, :, :1], logits.clean[:, :1], logits.labels, logits.names, 0.25)
    with pytest.raises(InputError, match="needs at least 2 members, got 1"):
        noise_covariance(alone)
