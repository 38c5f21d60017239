"""The distribution of p_A over inputs: what an average radius hides (Sun et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.analysis.hardness import lower_bounds
from smoothcert.analysis.results import Results
from smoothcert.present.figures.canvas import COLOURS, DASHES, FIGURES, canvas, label, legend_above, refuse_none, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@FIGURES.named("certainty")
def certainty_figure(results: Sequence[Results]) -> Figure:
    """The empirical CDF of the lower bound of p_A, one step curve per result; it begins with the share that is wrong.

    The lower a curve, the fewer inputs are so hard.
    """
    refuse_none(results)
    figure, axes = canvas(height=3.5 + 0.17 * len(results))
    for number, result in enumerate(results):
        bounds = lower_bounds(result)
        shares = 100 * np.arange(1, len(bounds) + 1) / len(bounds)
        colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        axes.step(
            np.concatenate([[0.0], bounds, [1.0]]), np.concatenate([[0.0], shares, [100.0]]),
            where="post", color=colour, linestyle=dashes, linewidth=1.4, label=short(result.name),
        )  # fmt: skip
    axes.axvline(0.5, color="#c4c4c4", linewidth=0.8, zorder=1)  # to its left nothing is certified
    label(axes, "Lower bound of $p_A$ (0 where wrong)", "Inputs up to it (%)")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 100)
    legend_above(axes)
    return figure
