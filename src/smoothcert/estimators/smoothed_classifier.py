"""Any scikit-learn classifier, made provably robust by noise, as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from smoothcert.core.errors import InputError
from smoothcert.engine import SklearnClassifier, Smoothed
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import Certificates, Predict, Procedure

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise InputError(
        f"SmoothedClassifier needs scikit-learn 1.6 or newer ({error}): install it with "
        "pip install 'smoothcert[sklearn]'"
    ) from None

DRAWS = 1_000


class SmoothedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """g(x) = the class that the estimator answers most often on noisy copies of x (Cohen et al. 2019).

    It is an estimator like every other: it can be cloned, searched and put into a pipeline. Features are float32, and
    the noise is added to them as they come in: put a scaler *before* it in a pipeline, and radii are in scaled units.
    Answers are a function of the input and the seed alone, not of what else is asked.

    Args:
        estimator: any classifier; a clone of it is fitted. Default: `LogisticRegression()`.
        noise: what is added, and so in which norm certificates speak. Default: `Gaussian(sigma=0.25)`, drawn in float32
            without a grid, since a table has no grid.
        noisy_copies: so many noisy copies of every row are fitted beside the rows themselves. A classifier that never
            saw noise may be certified at small radii only (Cohen et al. 2019, section 3.3); where it was good under
            noise already, copies can cost some. Try both.
        n: draws per row of `predict` and `predict_proba`.
        random_state: the seed of all draws, a whole number.

    Attributes:
        estimator_: what was fitted.
        classes_: the classes, sorted; class i of a certificate is `classes_[i]`.
        n_features_in_: how many features a row has.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        noise: Noise | None = None,
        noisy_copies: int = 0,
        n: int = DRAWS,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.noise = noise
        self.noisy_copies = noisy_copies
        self.n = n
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the estimator on rows X (N, d) and labels y (N,), and on noisy copies if there are to be."""
        self._check_options()
        rows, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise InputError(f"y must have at least two classes to tell apart, got 1 class: {self.classes_[0]!r}")
        fitted = [rows, *self._noisy(rows)]
        self.estimator_ = clone(LogisticRegression() if self.estimator is None else self.estimator)
        self.estimator_.fit(np.concatenate(fitted), np.tile(labels, len(fitted)))
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row with the most votes among `n` noisy copies. It never abstains: `certify` does."""
        votes = self._votes(X)
        answers: npt.NDArray[Any] = self.classes_[votes.argmax(axis=1)]
        return answers

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """The share of the votes that each class has among `n` noisy copies, (N, C): how the smoothed classifier votes.

        It estimates P(f(x + noise) = class), which certificates bound. It does not say how likely a class is the truth.
        """
        votes = self._votes(X)
        shares: npt.NDArray[np.float64] = votes / votes.sum(axis=1, keepdims=True)
        return shares

    def certify(self, X: Any, procedure: Procedure | None = None) -> Certificates:
        """A certificate per row: no perturbation below its radius changes the smoothed classifier's answer.

        Default procedure: `Fixed()`, Cohen's. The certified answer is the true majority under noise; `predict`, which
        draws `n` times, gives it but for rows that are nearly tied.
        """
        x = self._inputs(X)
        found = self._smoothed().certify(torch.from_numpy(x), procedure)
        found.class_names = tuple(str(name) for name in self.classes_)
        return found

    def _votes(self, X: Any) -> npt.NDArray[np.float64]:
        x = self._inputs(X)
        # The test of `Predict` is not asked: votes are all that is looked at, so any level will do.
        answers = self._smoothed().predict(torch.from_numpy(x), Predict(n=self.n, alpha=0.5))
        return np.array([answer.votes for answer in answers], dtype=np.float64)  # (N, C)

    def _inputs(self, X: Any) -> npt.NDArray[np.float32]:
        check_is_fitted(self)
        return np.ascontiguousarray(validate_data(self, X, dtype=np.float32, reset=False))

    def _smoothed(self) -> Smoothed:
        model = SklearnClassifier(self.estimator_)
        if model.num_classes != len(self.classes_):
            raise InputError(f"estimator knows {model.num_classes} of {len(self.classes_)} classes; fit another one")
        shape = (self.n_features_in_,)
        return Smoothed(model, len(self.classes_), self._noise, seed=self.random_state, input_shape=shape)

    @property
    def _noise(self) -> Noise:
        return Gaussian(sigma=0.25) if self.noise is None else self.noise

    def _noisy(self, rows: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
        generator = torch.Generator().manual_seed(self.random_state)
        x = torch.from_numpy(np.ascontiguousarray(rows))
        noise = self._noise.for_inputs(x)
        return [noise.draw(x, generator).numpy() for _ in range(self.noisy_copies)]

    def _check_options(self) -> None:
        if self.noise is not None and not isinstance(self.noise, Noise):
            raise InputError(f"noise must be a noise such as Gaussian(sigma=0.25), got {self.noise!r}")
        if not isinstance(self.noisy_copies, int | np.integer) or self.noisy_copies < 0:
            raise InputError(f"noisy_copies must be a whole number of at least 0, got {self.noisy_copies!r}")
        if not isinstance(self.n, int | np.integer) or self.n < 2:
            raise InputError(f"n must be a whole number of at least 2, got {self.n!r}")
        if not isinstance(self.random_state, int | np.integer):
            raise InputError(
                f"random_state must be a whole number, got {self.random_state!r}: answers are a function of it"
            )
