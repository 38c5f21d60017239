"""The variance model on logits whose truth is known, and its formulas against enumeration and Monte Carlo."""

from itertools import pairwise

import numpy as np
import pytest

from smoothcert.analysis import variance as v
from smoothcert.core.errors import InputError

C, MEANS = 4, np.array([2.0, 0.5, 0.0, -0.5])


def simulated(
    inputs: int, draws: int, k: int, zeta: float, *, clean: float = 0.5, noise: float = 1.0, seed: int = 0
) -> v.Array:
    """Logits as the model has them: c + y_c of training + y_p of noise, which members share to the degree zeta."""
    rng = np.random.default_rng(seed)
    trained = clean * rng.normal(size=(inputs, 1, k, C))
    shared, own = rng.normal(size=(inputs, draws, 1, C)), rng.normal(size=(inputs, draws, k, C))
    return MEANS + trained + noise * (np.sqrt(zeta) * shared + np.sqrt(1 - zeta) * own)


@pytest.mark.parametrize("zeta", [0.0, 0.3, 0.82, 1.0])
def test_components_are_found(zeta: float) -> None:
    """Margins have twice the variance of logits. 200 inputs x 400 draws: relative errors of about 1%; twice 5 of it."""
    model = v.components(simulated(200, 400, 10, zeta))
    assert model.zeta_p == pytest.approx(zeta, abs=0.03)
    assert model.zeta_c < 0.06, "independent seeds: 0, with a standard error of about 0.02"
    assert np.median(model.noise) == pytest.approx(2.0, rel=0.05)
    assert model.clean.mean() == pytest.approx(2 * 0.25, rel=0.1)
    assert np.bincount(model.top, minlength=C).argmax() == 0
    right = model.top == 0
    assert np.allclose(model.mean[right].mean(axis=0), MEANS[0] - MEANS[1:], atol=0.15)


def test_the_clean_ratio_of_the_paper_says_nothing() -> None:
    """Centred by their own mean, k numbers have the mean product of pairs -1/(k-1) of their variance, always."""
    rng = np.random.default_rng(0)
    for k in (3, 50):
        y = rng.normal(size=k)
        r = y - y.mean()
        inter = (r.sum() ** 2 - (r**2).sum()) / (k * (k - 1))
        assert inter / (r**2).mean() == pytest.approx(-1 / (k - 1))


@pytest.mark.parametrize(("trainings", "snapshots", "kin"), [(3, 2, 0.8), (2, 3, 0.6), (4, 2, 0.5)])
def test_members_that_have_learned_in_common_are_told(trainings: int, snapshots: int, kin: float) -> None:
    """Snapshots of one training share `kin` of their variance, others nothing: zeta_c is the mean over all pairs."""
    rng = np.random.default_rng(0)
    inputs, k = 300, trainings * snapshots
    shared = rng.normal(size=(inputs, trainings, 1, C))
    own = rng.normal(size=(inputs, trainings, snapshots, C))
    learned = 0.7 * (np.sqrt(kin) * shared + np.sqrt(1 - kin) * own).reshape(inputs, 1, k, C)
    common, alone = rng.normal(size=(inputs, 32, 1, C)), rng.normal(size=(inputs, 32, k, C))
    logits = MEANS + learned + np.sqrt(0.8) * common + np.sqrt(0.2) * alone
    truth = kin * (snapshots - 1) / (k - 1)
    model = v.components(logits)
    # A ratio of sums of squares over 300 inputs with 3 margins each: its standard error is about 0.01; five of it.
    assert model.zeta_c == pytest.approx(truth, abs=0.05)
    assert model.clean.mean() == pytest.approx(2 * 0.49, rel=0.15)


def test_members_that_vary_more_are_not_taken_for_strangers() -> None:
    """One of six independent members has three times the deviation of the others: zeta_c stays 0."""
    rng = np.random.default_rng(0)
    spread = np.array([1.0, 1, 1, 1, 1, 3])[:, None]
    logits = MEANS + 0.5 * spread * rng.normal(size=(200, 1, 6, C)) + rng.normal(size=(200, 32, 6, C))
    assert v.components(logits).zeta_c < 0.06


def test_too_few_members_tell_nothing_of_what_they_have_in_common() -> None:
    assert v.components(simulated(50, 20, 3, 0.5)).zeta_c == 0
    assert v.components(simulated(3, 20, 8, 0.5)).zeta_c == 0


@pytest.mark.parametrize("zeta", [0.1, 0.8])
def test_predicted_and_measured_ratio_agree(zeta: float) -> None:
    logits = simulated(100, 500, 8, zeta)
    found = v.components(logits).zeta_p
    for size in (1, 2, 4, 8):
        assert v.measured_ratio(logits, size) == pytest.approx(v.variance_ratio(found, size), abs=0.03)
    assert v.variance_ratio(zeta, 1) == 1
    assert v.variance_ratio(zeta, 10**9) == pytest.approx(zeta)


def test_the_clean_part_shrinks_as_independent_seeds_do() -> None:
    """Var of the mean margin over training and noise, of fresh ensembles of each size, against the model of one set."""
    model = v.components(simulated(400, 200, 6, 0.5, seed=1))
    for size in (1, 3, 12):
        fresh = simulated(20_000, 2, size, 0.5, seed=2)[:, 0].mean(axis=1)  # (20_000, C), one draw each
        truth = (fresh[:, 0] - fresh[:, 1]).var()
        # A variance of 20_000 normals: relative standard error 1%.
        assert np.median(model.variance(size)) == pytest.approx(truth, rel=0.08)


def test_chebyshev_holds_and_the_success_is_that_of_gaussian_margins() -> None:
    """Fresh ensembles of each size, trained and drawn anew 20 000 times, against the model of one set of members."""
    means = np.array([2.5, 1.0, 0.8, -0.5])
    shift = means - MEANS
    model = v.components(shift + simulated(400, 200, 8, 0.5, seed=5))
    for size in (1, 4):
        fresh = (shift + simulated(20_000, 2, size, 0.5, seed=6))[:, 0].mean(axis=1)  # (20_000, C)
        truth = float((fresh.argmax(axis=1) == 0).mean())
        right = model.top == 0
        # The mean over inputs whose own means differ by training: the truth for the mean input, within 3 points.
        found = float(np.median(model.success(size)[right]))
        assert found == pytest.approx(truth, abs=0.03)
        assert (v.chebyshev(model.mean, model.variance(size)) <= model.success(size) + 1e-9).all()
    mean, variance = np.array([[1.5, 2.0, 2.5]]), np.array([[0.5, 0.7, 0.4]])
    assert v.chebyshev(mean, variance)[0] == pytest.approx(1 - 0.5 / 2.25 - 0.7 / 4 - 0.4 / 6.25)
    assert v.chebyshev(np.array([[-0.1, 3.0, 3.0]]), variance)[0] == 0


def test_classes_that_are_no_rivals_are_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = simulated(30, 60, 4, 0.5)
    whole = v.components(logits).success(3)
    monkeypatch.setattr(v, "MOST_RIVALS", 2)
    model = v.components(logits)
    assert model.rivals.shape == (30, 2)
    assert (model.success(3) <= whole + 1e-4).all(), "the union bound takes off at least what the integral does"
    assert np.median(model.success(3) / whole) > 0.9


def test_alpha_and_beta_tell_whether_mixing_helps() -> None:
    alpha, beta = v.mixing(simulated(50, 2000, 3, 0.4))
    assert alpha.shape == beta.shape == (50, C - 1)
    assert (alpha > beta).all()
    assert np.median(beta / alpha) == pytest.approx(0.4, abs=0.1)
    logits = simulated(20, 200, 5, 0.5)
    alpha, beta = v.mixing(logits)
    whole = v.margins(logits)[1].mean(axis=2).var(axis=1, ddof=1)
    assert (whole <= beta + (alpha - beta) / 5 + 1e-12).all(), "equation 6"
    same = np.repeat(simulated(5, 50, 1, 0.5), 3, axis=2)
    alpha, beta = v.mixing(same)
    assert np.allclose(alpha, beta)
    with pytest.raises(InputError, match="at least 2 members, got 1"):
        v.mixing(simulated(5, 50, 1, 0.5))


def test_plan_says_that_more_uncorrelated_members_are_better() -> None:
    logits = simulated(60, 100, 4, 0.2, noise=1.5)
    labels = np.zeros(60, dtype=np.int64)
    rows = v.plan(logits, labels, [1, 2, 4, 50], sigma=0.25, n=1000, alpha=0.001)
    assert [row.size for row in rows] == [1, 2, 4, 50]
    for a, b in pairwise(rows):
        assert b.predicted < a.predicted
        assert b.p > a.p
        assert b.radius > a.radius
        assert b.chebyshev >= a.chebyshev
    assert [row.measured is None for row in rows] == [False, False, False, True]
    assert rows[2].accuracy is not None
    assert rows[0].accuracy is not None
    assert rows[2].accuracy > rows[0].accuracy
    agree = (logits[:, :, 0].argmax(2) == logits[:, :, 1].argmax(2)).mean()
    assert rows[2].consensus == pytest.approx(2 + (1 - agree) * 2)
    assert v.plan(logits[:, :, :1], labels, [1, 5], sigma=0.25, n=1000, alpha=0.001)[1].predicted == 1
    with pytest.raises(InputError, match="sizes must be at least 1"):
        v.plan(logits, labels, [0], sigma=0.25, n=1000, alpha=0.001)
    with pytest.raises(InputError, match="logits must be"):
        v.components(logits[:, :1])
