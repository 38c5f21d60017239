"""From records to numbers, tables and figures. Everything here can be rebuilt without a model; no torch."""

from smoothcert.analysis.figures import radius_accuracy
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
    mean_seconds,
    share_interval,
)
from smoothcert.analysis.results import Results, read, read_all, shared, subset_warnings
from smoothcert.analysis.summary import Row, Summary, summarise, usual_radii
from smoothcert.analysis.tables import markdown, rich_table

__all__ = [
    "Interval",
    "Log",
    "Results",
    "Row",
    "Share",
    "Summary",
    "abstention_rate",
    "abstentions",
    "acr_interval",
    "average_certified_radius",
    "certified_accuracy",
    "certified_shares",
    "markdown",
    "mean_draws",
    "mean_seconds",
    "radius_accuracy",
    "read",
    "read_all",
    "read_log",
    "rich_table",
    "share_interval",
    "shared",
    "subset_warnings",
    "summarise",
    "usual_radii",
]
