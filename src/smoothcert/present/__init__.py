"""What people see: tables, exports, figures and the report page. No torch."""

from smoothcert.present.comparison_table import comparison_table
from smoothcert.present.exports import comma_separated, latex
from smoothcert.present.figures import (
    acr_by_members,
    acr_by_size,
    draws_by_votes,
    draws_saved,
    radius_accuracy,
    radius_scatter,
    sigma_histogram,
    training_curves,
)
from smoothcert.present.hardness_table import hardness_table
from smoothcert.present.tables import markdown, rich_table

__all__ = [
    "acr_by_members",
    "acr_by_size",
    "comma_separated",
    "comparison_table",
    "draws_by_votes",
    "draws_saved",
    "hardness_table",
    "latex",
    "markdown",
    "radius_accuracy",
    "radius_scatter",
    "rich_table",
    "sigma_histogram",
    "training_curves",
]
