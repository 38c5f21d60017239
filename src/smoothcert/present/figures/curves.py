"""Radius-accuracy curves (Liu et al. 2021, figure 1; Zhai et al. 2020, figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.envelope import upper_envelope
from smoothcert.analysis.measures import average_certified_radius, certified_shares, right
from smoothcert.analysis.results import Results
from smoothcert.present.figures.canvas import (
    COLOURS,
    DASHES,
    FIGURES,
    canvas,
    check_name,
    label,
    legend_above,
    radius_label,
    refuse_none,
    save,
    short,
)
from smoothcert.present.tables import RADIUS_DIGITS
from smoothcert.stats.rounding import down

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def radius_accuracy(results: Sequence[Results], path: str | Path, *, envelope: bool = False) -> Path:
    """Draw certified accuracy over radius, one step curve per result, to a PNG, SVG or PDF file (by suffix).

    A curve is the exact share at every radius; its band is the pointwise 95% Clopper-Pearson interval. The legend has
    the ACR, rounded down. With `envelope`, the `upper_envelope` of all stands behind them. Equal results give an equal
    file.
    """
    check_name(path)
    return save(radius_accuracy_figure(results, envelope=envelope), path)


@FIGURES.named("curves")
def radius_accuracy_figure(results: Sequence[Results], *, envelope: bool = False) -> Figure:
    """The figure of `radius_accuracy`."""
    refuse_none(results)
    figure, axes = canvas(height=3.5 + 0.17 * (len(results) + envelope))
    for number, result in enumerate(results):
        _draw(axes, result, COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)])
    drawn = list(results)
    if envelope:
        drawn.append(best := upper_envelope(results))
        radii, (value, _, _) = steps(best)
        axes.step(radii, value, where="pre", color="#c4c4c4", linewidth=3.2, zorder=1, label=_label(best))
    label(axes, f"Certified {radius_label(results)}", "Certified accuracy (%)")
    axes.set_xlim(0, 1.02 * max(max(_reached(result)) for result in drawn) or 1)
    axes.set_ylim(0, 100)
    legend_above(axes)
    return figure


def steps(result: Results) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Corners of the curve: (k,) radii, and (3, k) percentages (share, low, high) that hold down from each radius."""
    radii = sorted(_reached(result))
    shares = certified_shares(result.records, radii)
    intervals = {share.count: share.interval for share in shares}
    ends = [(s.value, intervals[s.count].low, intervals[s.count].high) for s in shares]
    corners = np.array([*ends, (0.0, 0.0, 0.0)]).T  # (3, k + 1): beyond the last radius nothing is certified
    return np.array([*radii, radii[-1]]), 100 * corners


def _draw(axes: Axes, result: Results, colour: str, dashes: str) -> None:
    radii, (value, low, high) = steps(result)
    axes.fill_between(radii, low, high, step="pre", color=colour, alpha=0.13, linewidth=0)
    axes.step(radii, value, where="pre", color=colour, linestyle=dashes, linewidth=1.4, label=_label(result))


def _label(result: Results) -> str:
    return f"ACR {down(average_certified_radius(result.records), RADIUS_DIGITS)}   {short(result.name)}"


def _reached(result: Results) -> set[float]:
    return {0.0} | {record.radius for record in result.records if right(record)}
