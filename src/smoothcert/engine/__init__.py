"""The engine: draws of many inputs, packed into full batches, run through any model, counted."""

from smoothcert.engine.classifier import SklearnClassifier
from smoothcert.engine.smoothed import Smoothed

__all__ = ["SklearnClassifier", "Smoothed"]
