"""From records to numbers. Everything here can be computed again without a model; no torch."""

from smoothcert.analysis.comparison import AtRadius, Comparison, SignTest, compare
from smoothcert.analysis.envelope import UpperEnvelope, oracle, upper_envelope
from smoothcert.analysis.folders import Leaderboard, leaderboard
from smoothcert.analysis.logs import Log, read_log
from smoothcert.analysis.measures import (
    Interval,
    Share,
    abstention_rate,
    abstentions,
    acr_interval,
    asked_up_to,
    average_certified_radius,
    certified_accuracy,
    certified_shares,
    mean_draws,
    mean_interval,
    mean_seconds,
    share_interval,
)
from smoothcert.analysis.reanalysis import reanalyse
from smoothcert.analysis.results import Results, on_shared_inputs, read, read_all, subset_warnings
from smoothcert.analysis.robustness import (
    ClassMeasures,
    at_least,
    log_ball_volume,
    log_mean_volume,
    per_class,
    robustness_index,
)
from smoothcert.analysis.seeds import Average, MeanAndDeviation, average, averages, by_method
from smoothcert.analysis.settings import Settings
from smoothcert.analysis.subset import describe_subset
from smoothcert.analysis.summary import Row, Summary, summarise, usual_radii

__all__ = [
    "AtRadius",
    "Average",
    "ClassMeasures",
    "Comparison",
    "Interval",
    "Leaderboard",
    "Log",
    "MeanAndDeviation",
    "Results",
    "Row",
    "Settings",
    "Share",
    "SignTest",
    "Summary",
    "UpperEnvelope",
    "abstention_rate",
    "abstentions",
    "acr_interval",
    "asked_up_to",
    "at_least",
    "average",
    "average_certified_radius",
    "averages",
    "by_method",
    "certified_accuracy",
    "certified_shares",
    "compare",
    "describe_subset",
    "leaderboard",
    "log_ball_volume",
    "log_mean_volume",
    "mean_draws",
    "mean_interval",
    "mean_seconds",
    "on_shared_inputs",
    "oracle",
    "per_class",
    "read",
    "read_all",
    "read_log",
    "reanalyse",
    "robustness_index",
    "share_interval",
    "subset_warnings",
    "summarise",
    "upper_envelope",
    "usual_radii",
]
