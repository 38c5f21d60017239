"""The door for those who come from scikit-learn: the smoothed classifier as an estimator."""

from smoothcert.estimators.smoothed_classifier import SmoothedClassifier

__all__ = ["SmoothedClassifier"]
