"""An ensemble is a classifier: how members are aggregated, in which order and with which weights, and its file."""

from smoothcert.core.registry import import_all
from smoothcert.models.ensembles.base import AGGREGATIONS, Aggregation, Ensemble, Member, ask, ask_all
from smoothcert.models.ensembles.consensus import Consensus
from smoothcert.models.ensembles.denoised import Denoised
from smoothcert.models.ensembles.early_exit import EarlyExit
from smoothcert.models.ensembles.file import load_model, save
from smoothcert.models.ensembles.margin_ratio import margin_ratio_weights_per_input
from smoothcert.models.ensembles.max_margin import MaxMargin
from smoothcert.models.ensembles.minimum_variance import (
    Estimation,
    minimum_variance_weights,
    minimum_variance_weights_per_input,
)
from smoothcert.models.ensembles.mirrored import Mirrored
from smoothcert.models.ensembles.ranking import Ranking, rank
from smoothcert.models.ensembles.sampling import refuse_overlap
from smoothcert.models.ensembles.side_by_side import SideBySide
from smoothcert.models.ensembles.sween import Weights, sween_weights
from smoothcert.models.ensembles.voting import HardVoting, SoftmaxVoting, SoftVoting

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
    "Member",
    "Mirrored",
    "Ranking",
    "SideBySide",
    "SoftVoting",
    "SoftmaxVoting",
    "Weights",
    "ask",
    "ask_all",
    "load_model",
    "margin_ratio_weights_per_input",
    "minimum_variance_weights",
    "minimum_variance_weights_per_input",
    "rank",
    "refuse_overlap",
    "save",
    "sween_weights",
]

import_all(__name__, __path__)
