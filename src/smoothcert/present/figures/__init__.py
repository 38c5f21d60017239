"""Figures from records, one file each. Each function writes a PNG, SVG or PDF; `..._figure` gives the figure itself.

A new figure for `analyze --kind` is one file with a function from results to a figure under `@FIGURES.named("name")`,
one for `figure members` a function of the members' logits under `@MEMBER_FIGURES.named("name")`: every module of this
package is imported.
"""

from smoothcert.core.registry import import_all
from smoothcert.present.figures.canvas import (
    COLOURS,
    FIGURES,
    MEMBER_FIGURES,
    Planned,
    canvas,
    draw,
    label,
    legend_above,
    panels,
    save,
    short,
)
from smoothcert.present.figures.certainty import certainty_figure
from smoothcert.present.figures.curves import radius_accuracy, radius_accuracy_figure
from smoothcert.present.figures.draws import draws_by_votes, draws_by_votes_figure, draws_saved, draws_saved_figure
from smoothcert.present.figures.laws import expected_radius_figure, stages_figure
from smoothcert.present.figures.scatter import radius_scatter, radius_scatter_figure
from smoothcert.present.figures.sigmas import sigma_histogram, sigma_histogram_figure
from smoothcert.present.figures.sizes import acr_by_members, acr_by_members_figure, acr_by_size, acr_by_size_figure
from smoothcert.present.figures.training import training_curves, training_curves_figure

__all__ = [
    "COLOURS",
    "FIGURES",
    "MEMBER_FIGURES",
    "Planned",
    "acr_by_members",
    "acr_by_members_figure",
    "acr_by_size",
    "acr_by_size_figure",
    "canvas",
    "certainty_figure",
    "draw",
    "draws_by_votes",
    "draws_by_votes_figure",
    "draws_saved",
    "draws_saved_figure",
    "expected_radius_figure",
    "label",
    "legend_above",
    "panels",
    "radius_accuracy",
    "radius_accuracy_figure",
    "radius_scatter",
    "radius_scatter_figure",
    "save",
    "short",
    "sigma_histogram",
    "sigma_histogram_figure",
    "stages_figure",
    "training_curves",
    "training_curves_figure",
]

import_all(__name__, __path__)
