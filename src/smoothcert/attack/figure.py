"""Certified accuracy beside the accuracy that attacks leave, over the radius (Salman et al. 2019, figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.analysis.measures import Share
from smoothcert.attack.table import RobustAccuracy
from smoothcert.present.figures.canvas import (
    COLOURS,
    MARKERS,
    canvas,
    check_name,
    label,
    legend_above,
    refuse_none,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def robust_accuracy_curves(rows: Sequence[RobustAccuracy], path: str | Path) -> Path:
    """Draw both bounds of the robust accuracy, with 95% intervals, to a PNG, SVG or PDF file (by suffix).

    The truth lies in the shaded part between the certified curve and what the attacks together leave.
    """
    check_name(path)
    return save(robust_accuracy_curves_figure(rows), path)


def robust_accuracy_curves_figure(rows: Sequence[RobustAccuracy]) -> Figure:
    """The figure of `robust_accuracy_curves`."""
    refuse_none(rows)
    adversaries = list(rows[0].left)
    figure, axes = canvas(height=3.5 + 0.17 * (len(adversaries) + 1))
    radii = [row.radius for row in rows]
    low, high = ([100 * share.value for share in shares] for shares in _bounds(rows))
    axes.fill_between(radii, low, high, color="#dddddd", linewidth=0, zorder=1, label="between the bounds")
    _curve(axes, radii, [row.certified for row in rows], 0, "certified: no attack can do more")
    for number, name in enumerate(adversaries, start=1):
        _curve(axes, radii, [row.left[name] for row in rows], number, f"left by {name}")
    label(axes, r"$\ell_2$ radius", "Right answers (%)")
    axes.set_ylim(0, 100)
    axes.set_xlim(left=0)
    legend_above(axes)
    return figure


def _bounds(rows: Sequence[RobustAccuracy]) -> tuple[list[Share], list[Share]]:
    return [row.certified for row in rows], [row.left_by_all for row in rows]


def _curve(axes: Axes, radii: Sequence[float], shares: Sequence[Share], number: int, name: str) -> None:
    values = [100 * share.value for share in shares]
    ends = [(share.value - share.interval.low, share.interval.high - share.value) for share in shares]
    axes.errorbar(
        radii,
        values,
        yerr=[[100 * end[side] for end in ends] for side in (0, 1)],
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=4,
        linewidth=1.4,
        elinewidth=0.8,
        capsize=2,
        label=name,
    )
