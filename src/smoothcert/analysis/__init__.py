"""From records to numbers. Everything here can be computed again without a model; no torch."""

from smoothcert.analysis.comparison import AtRadius, Comparison, Duel, compare
from smoothcert.analysis.envelope import largest, upper_envelope
from smoothcert.analysis.folders import Board, leaderboard
from smoothcert.analysis.logs import Log, read_log
from smoothcert.analysis.measures import (
    Interval,
    Share,
    abstention_rate,
    abstentions,
    acr_interval,
    average_certified_radius,
    certified_accuracy,
    certified_shares,
    mean_draws,
    mean_interval,
    mean_seconds,
    share_interval,
)
from smoothcert.analysis.reanalysis import reanalyse
from smoothcert.analysis.results import Results, read, read_all, shared, subset_warnings
from smoothcert.analysis.robustness import (
    ClassMeasures,
    at_least,
    log_ball_volume,
    log_mean_volume,
    per_class,
    robustness_index,
)
from smoothcert.analysis.seeds import Average, Spread, average, averages, by_method
from smoothcert.analysis.settings import Settings
from smoothcert.analysis.summary import Row, Summary, summarise, usual_radii

__all__ = [
    "AtRadius",
    "Average",
    "Board",
    "ClassMeasures",
    "Comparison",
    "Duel",
    "Interval",
    "Log",
    "Results",
    "Row",
    "Settings",
    "Share",
    "Spread",
    "Summary",
    "abstention_rate",
    "abstentions",
    "acr_interval",
    "at_least",
    "average",
    "average_certified_radius",
    "averages",
    "by_method",
    "certified_accuracy",
    "certified_shares",
    "compare",
    "largest",
    "leaderboard",
    "log_ball_volume",
    "log_mean_volume",
    "mean_draws",
    "mean_interval",
    "mean_seconds",
    "per_class",
    "read",
    "read_all",
    "read_log",
    "reanalyse",
    "robustness_index",
    "share_interval",
    "shared",
    "subset_warnings",
    "summarise",
    "upper_envelope",
    "usual_radii",
]
