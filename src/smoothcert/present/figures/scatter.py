"""One run against another, input by input (Liu et al. 2021, figure 4)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.analysis.measures import gains
from smoothcert.analysis.results import Results, on_shared_inputs
from smoothcert.present.figures.canvas import (
    COLOURS,
    FAINT,
    INK,
    canvas,
    check_name,
    label,
    legend_above,
    radius_label,
    save,
    short,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def radius_scatter(a: Results, b: Results, path: str | Path) -> Path:
    """Draw each shared input at (radius of a, radius of b), 0 where the answer is wrong; above the line b is better."""
    check_name(path)
    return save(radius_scatter_figure(a, b), path)


def radius_scatter_figure(a: Results, b: Results) -> Figure:
    """The figure of `radius_scatter`: points where a is better, where b is, ties, and the line between."""
    pair = on_shared_inputs([a, b])
    x, y = (np.array(gains(result.records)) for result in pair)  # (n,) each
    figure, axes = canvas(4.6, 4.9)
    largest = 1.04 * float(max(x.max(), y.max())) or 1.0
    axes.plot([0, largest], [0, largest], color=FAINT, linewidth=1, linestyle="--", zorder=1)
    size = 18 if len(x) <= 1000 else 7  # thousands of points would hide one another
    groups = [(x > y, COLOURS[0], f"{short(a.name, 40)} larger"), (y > x, COLOURS[1], f"{short(b.name, 40)} larger")]
    for chosen, colour, title in [*groups, ((x == y) & (x > 0), INK, "equal")]:
        if count := int(chosen.sum()):
            axes.scatter(
                x[chosen],
                y[chosen],
                s=size,
                color=colour,
                alpha=0.5,
                linewidth=0,
                clip_on=False,
                label=f"{_inputs(count)}: {title}",
            )
    if neither := int(((x == 0) & (y == 0)).sum()):
        axes.scatter([0], [0], s=30, color=FAINT, clip_on=False, zorder=3, label=f"{_inputs(neither)}: both 0")
    radius = radius_label(pair)
    label(axes, f"Certified {radius} of {short(a.name, 34)}", f"Certified {radius} of {short(b.name, 34)}", size=9)
    axes.set(xlim=(0, largest), ylim=(0, largest), aspect="equal")
    legend_above(axes)
    return figure


def _inputs(count: int) -> str:
    return f"{count} input{'' if count == 1 else 's'}"
