"""The engine: draws of many inputs, packed into full batches, run through any model, counted."""

from smoothcert.engine.classifier import SklearnClassifier
from smoothcert.engine.compiled import Compiled
from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.pools import Pool, Processes, Ray, Threads
from smoothcert.engine.routed import Routed
from smoothcert.engine.sigma import DDRS, Bracket, SigmaSearch, optimize_sigma
from smoothcert.engine.smoothed import Smoothed
from smoothcert.engine.weights import LeastVariance, MarginRatio, WeightSearch

__all__ = [
    "DDRS",
    "Bracket",
    "Compiled",
    "LeastVariance",
    "MarginRatio",
    "MemberCalls",
    "Pool",
    "Processes",
    "Ray",
    "Routed",
    "SigmaSearch",
    "SklearnClassifier",
    "Smoothed",
    "Threads",
    "WeightSearch",
    "optimize_sigma",
]
