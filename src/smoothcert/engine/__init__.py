"""The engine: draws of many inputs, packed into full batches, run through any model, counted."""

from smoothcert.engine.classifier import SklearnClassifier
from smoothcert.engine.own_weights import OwnWeights
from smoothcert.engine.sigma import DDRS, Bracket, SigmaSearch, optimize_sigma
from smoothcert.engine.smoothed import Smoothed

__all__ = ["DDRS", "Bracket", "OwnWeights", "SigmaSearch", "SklearnClassifier", "Smoothed", "optimize_sigma"]
