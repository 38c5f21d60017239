"""From records to numbers, tables and figures. Everything here can be rebuilt without a model; no torch."""

from smoothcert.analysis.attacks import Stand, attack_table, stands
from smoothcert.analysis.audit import Audit, audit_run
from smoothcert.analysis.comparison import AtRadius, Comparison, Duel, compare
from smoothcert.analysis.comparison_table import comparison_table
from smoothcert.analysis.envelope import largest, upper_envelope
from smoothcert.analysis.exports import comma_separated, latex
from smoothcert.analysis.figures import (
    acr_by_members,
    acr_by_size,
    draws_by_votes,
    draws_saved,
    radius_accuracy,
    radius_scatter,
    robust_accuracy,
    sigma_histogram,
)
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
from smoothcert.analysis.summary import Row, Summary, summarise, usual_radii
from smoothcert.analysis.tables import markdown, rich_table

__all__ = [
    "AtRadius",
    "Audit",
    "Average",
    "Board",
    "ClassMeasures",
    "Comparison",
    "Duel",
    "Interval",
    "Log",
    "Results",
    "Row",
    "Share",
    "Spread",
    "Stand",
    "Summary",
    "abstention_rate",
    "abstentions",
    "acr_by_members",
    "acr_by_size",
    "acr_interval",
    "at_least",
    "attack_table",
    "audit_run",
    "average",
    "average_certified_radius",
    "averages",
    "by_method",
    "certified_accuracy",
    "certified_shares",
    "comma_separated",
    "compare",
    "comparison_table",
    "draws_by_votes",
    "draws_saved",
    "largest",
    "latex",
    "leaderboard",
    "log_ball_volume",
    "log_mean_volume",
    "markdown",
    "mean_draws",
    "mean_interval",
    "mean_seconds",
    "per_class",
    "radius_accuracy",
    "radius_scatter",
    "read",
    "read_all",
    "read_log",
    "reanalyse",
    "rich_table",
    "robust_accuracy",
    "robustness_index",
    "share_interval",
    "shared",
    "sigma_histogram",
    "stands",
    "subset_warnings",
    "summarise",
    "upper_envelope",
    "usual_radii",
]
