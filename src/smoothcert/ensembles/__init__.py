"""An ensemble is a classifier: how members are aggregated, in which order and with which weights, and its file."""

from smoothcert.ensembles.base import Aggregation, Ensemble
from smoothcert.ensembles.consensus import Consensus
from smoothcert.ensembles.denoised import Denoised
from smoothcert.ensembles.early_exit import EarlyExit
from smoothcert.ensembles.file import load_model, save
from smoothcert.ensembles.max_margin import MaxMargin
from smoothcert.ensembles.minimum_variance import (
    Estimation,
    minimum_variance_weights,
    minimum_variance_weights_per_input,
)
from smoothcert.ensembles.ranking import Ranking, rank
from smoothcert.ensembles.registry import AGGREGATIONS
from smoothcert.ensembles.sampling import refuse_overlap
from smoothcert.ensembles.sween import Weights, sween_weights
from smoothcert.ensembles.voting import HardVoting, SoftmaxVoting, SoftVoting

__all__ = [
    "AGGREGATIONS",
    "Aggregation",
    "Consensus",
    "Denoised",
    "EarlyExit",
    "Ensemble",
    "Estimation",
    "HardVoting",
    "MaxMargin",
    "Ranking",
    "SoftVoting",
    "SoftmaxVoting",
    "Weights",
    "load_model",
    "minimum_variance_weights",
    "minimum_variance_weights_per_input",
    "rank",
    "refuse_overlap",
    "save",
    "sween_weights",
]
