"""The smoothed classifier among scikit-learn's estimators: it passes their own checks, and its radii are true."""

import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import smoothcert as sc
from smoothcert.core.errors import InputError


@parametrize_with_checks(
    [
        sc.SmoothedClassifier(n=100),
        sc.SmoothedClassifier(DecisionTreeClassifier(random_state=0), noise=sc.Gaussian(0.1), noisy_copies=2, n=64),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def half_planes():
    """Class b right of the line 3 x + 4 y = 0, at a margin."""
    rows = np.random.default_rng(0).normal(size=(400, 2))
    distance = rows @ [0.6, 0.8]
    kept = np.abs(distance) > 0.2
    return rows[kept], np.where(distance[kept] > 0, "b", "a"), distance[kept]


def test_radii_are_below_the_distance_to_the_boundary_and_near_it(half_planes):
    """A linear classifier is its own smoothed one: the true radius is the distance to its plane."""
    rows, labels, _ = half_planes
    model = sc.SmoothedClassifier(LogisticRegression(C=1e4), noise=sc.Gaussian(sigma=0.5), random_state=3)
    certificates = model.fit(rows, labels).certify(rows[:40], sc.Fixed(n=10_000, alpha=1e-6))
    weights, offset = model.estimator_.coef_[0], model.estimator_.intercept_[0]
    true = np.abs(rows[:40].astype(np.float32) @ weights + offset) / np.linalg.norm(weights)
    radii = np.array([certificate.radius for certificate in certificates])
    assert (radii <= true).all()
    reachable = 0.5 * norm.ppf(1e-6 ** (1 / 10_000))  # even if all votes agree
    tells = (true > 0.3) & (true < reachable)
    assert tells.sum() > 10
    assert (radii[tells] > 0.8 * true[tells]).all()
    answers = [model.classes_[certificate.label] for certificate in certificates if not certificate.abstained]
    assert len(answers) > 30
    assert answers == [
        label for label, c in zip(model.predict(rows[:40]), certificates, strict=True) if not c.abstained
    ]


def test_shares_are_of_votes(half_planes):
    rows, labels, _ = half_planes
    model = sc.SmoothedClassifier(noise=sc.Gaussian(sigma=1.0), n=2_000).fit(rows, labels)
    shares = model.predict_proba(rows[:20])
    weights, offset = model.estimator_.coef_[0], model.estimator_.intercept_[0]
    true = norm.cdf((rows[:20] @ weights + offset) / np.linalg.norm(weights))  # P(f(x + noise) = b)
    assert np.abs(shares[:, 1] - true).max() < 5 * np.sqrt(0.25 / 2_000)
    assert (shares * 2_000 == np.rint(shares * 2_000)).all()


def test_it_is_cloned_searched_piped_and_pickled(half_planes):
    rows, labels, _ = half_planes
    piped = make_pipeline(StandardScaler(), sc.SmoothedClassifier(DecisionTreeClassifier(random_state=0), n=50))
    grid = {"smoothedclassifier__noisy_copies": [0, 5], "smoothedclassifier__estimator__max_depth": [3]}
    search = GridSearchCV(piped, grid, cv=2).fit(rows, labels)
    assert search.best_score_ > 0.9
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert (again.predict(rows[:30]) == search.predict(rows[:30])).all()


class Recording(LogisticRegression):
    def fit(self, X, y):
        self.seen_ = X, y
        return super().fit(X, y)


def test_noisy_copies_are_fitted_beside_the_rows(half_planes):
    rows, labels, _ = half_planes
    model = sc.SmoothedClassifier(Recording(), noise=sc.Gaussian(sigma=0.5), noisy_copies=3).fit(rows, labels)
    x, y = model.estimator_.seen_
    n = len(rows)
    assert x.shape == (4 * n, 2)
    assert (y == np.tile(labels, 4)).all()
    assert (x[:n] == rows.astype(np.float32)).all()
    added = (x[n:] - np.tile(rows, (3, 1))).ravel()
    assert abs(added.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * added.size)
    assert abs(added.mean()) < 5 * 0.5 / np.sqrt(added.size)


def test_a_table_of_certificates_names_the_classes(half_planes):
    rows, labels, _ = half_planes
    model = sc.SmoothedClassifier().fit(rows, np.where(labels == "a", "ham", "spam"))
    printed = str(model.certify(rows[:3], sc.Fixed(n=100)))
    assert "l2 radius" in printed.splitlines()[0]
    assert any(word in printed for word in ("ham", "spam"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"noise": 0.25}, "noise must be a noise such as Gaussian"),
        ({"noisy_copies": -1}, "noisy_copies must be a whole number of at least 0, got -1"),
        ({"n": 0}, "n must be a whole number of at least 2, got 0"),
        ({"random_state": None}, "random_state must be a whole number, got None"),
    ],
)
def test_options_that_cannot_be_are_refused(options, says):
    with pytest.raises(InputError, match=says):
        sc.SmoothedClassifier(**options).fit(np.eye(4), [0, 1, 0, 1])
