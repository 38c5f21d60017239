"""Radius-accuracy curves (Liu et al. 2021, figure 1; Zhai et al. 2020, figure 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.envelope import oracle as best_of_each_input
from smoothcert.analysis.envelope import upper_envelope
from smoothcert.analysis.measures import asked_up_to, average_certified_radius, certified_shares, right
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


def radius_accuracy(
    results: Sequence[Results], path: str | Path, *, envelope: bool = False, oracle: bool = False
) -> Path:
    """Draw certified accuracy over radius, one step curve per result, to a PNG, SVG or PDF file (by suffix).

    A curve is the exact share at every radius; its band is the pointwise 95% Clopper-Pearson interval. The legend has
    the ACR, rounded down. A curve of given radii ends with a mark at the largest of them: beyond, nothing was asked.
    With `envelope`, the largest certified accuracy at each radius (UE, as `upper_envelope`) stands behind them, with
    `oracle` the `oracle`. Equal results give an equal file.
    """
    check_name(path)
    return save(radius_accuracy_figure(results, envelope=envelope, oracle=oracle), path)


@FIGURES.named("curves")
def radius_accuracy_figure(results: Sequence[Results], *, envelope: bool = False, oracle: bool = False) -> Figure:
    """The figure of `radius_accuracy`."""
    refuse_none(results)
    figure, axes = canvas(height=3.5 + 0.17 * (len(results) + envelope + oracle))
    for number, result in enumerate(results):
        _draw(axes, result, COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)])
    drawn = list(results)
    if envelope:
        radii, value, title = _envelope(results)
        axes.step(radii, value, where="pre", color="#c4c4c4", linewidth=3.2, zorder=1, label=title)
    if oracle:
        drawn.append(best := best_of_each_input(results))
        corners, (share, _, _) = steps(best)
        title = _label(best)
        axes.step(corners, share, where="pre", color="#8c8c8c", linewidth=1.2, linestyle=":", zorder=1, label=title)
    label(axes, f"Certified {radius_label(results)}", "Certified accuracy (%)")
    axes.set_xlim(0, 1.02 * max(max(_reached(result)) for result in drawn) or 1)
    axes.set_ylim(0, 100)
    legend_above(axes)
    return figure


def steps(result: Results) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Corners of the curve: (k,) radii, and (3, k) percentages (share, low, high) that hold down from each radius.

    It falls to 0 beyond the last radius, unless that is the largest that was asked about: there it ends.
    """
    radii = sorted(_reached(result))
    shares = certified_shares(result.records, radii)
    intervals = {share.count: share.interval for share in shares}
    ends = [(s.value, intervals[s.count].low, intervals[s.count].high) for s in shares]
    if _limit(result) is None:  # beyond the last radius nothing is certified
        radii, ends = [*radii, radii[-1]], [*ends, (0.0, 0.0, 0.0)]
    return np.array(radii), 100 * np.array(ends).T  # (3, k)


def _draw(axes: Axes, result: Results, colour: str, dashes: str) -> None:
    radii, (value, low, high) = steps(result)
    axes.fill_between(radii, low, high, step="pre", color=colour, alpha=0.13, linewidth=0)
    axes.step(radii, value, where="pre", color=colour, linestyle=dashes, linewidth=1.4, label=_label(result))
    if _limit(result) is not None:
        axes.plot(radii[-1:], value[-1:], color=colour, marker="o", markersize=4.5, clip_on=False, linestyle="none")


def _envelope(results: Sequence[Results]) -> tuple[list[float], list[float], str]:
    """Corners of the largest curve at each radius, in percent, and its title."""
    radii = sorted(set().union(*(_reached(result) for result in results)))
    best = upper_envelope(results, radii)
    value = [100 * share.value for share in best.accuracy if share is not None]  # at each some member was asked
    if any(_limit(result) is None for result in results):
        radii, value = [*radii, radii[-1]], [*value, 0.0]
    return radii, value, f"largest ACR {down(best.acr, RADIUS_DIGITS)}   {best.name}"


def _label(result: Results) -> str:
    limit = _limit(result)
    ends = "" if limit is None else f"   (asked up to {limit:g})"
    return f"ACR {down(average_certified_radius(result.records), RADIUS_DIGITS)}   {short(result.name)}{ends}"


def _limit(result: Results) -> float | None:
    """The largest radius that was asked about, where radii were given."""
    limit = asked_up_to(result.records)
    return None if math.isinf(limit) else limit


def _reached(result: Results) -> set[float]:
    limit = _limit(result)
    return {0.0, *([] if limit is None else [limit])} | {r.radius for r in result.records if right(r)}
