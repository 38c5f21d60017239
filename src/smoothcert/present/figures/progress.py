"""The best ACR so far over the time of training (Liu et al. 2023, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.analysis.measures import average_certified_radius
from smoothcert.analysis.results import Results
from smoothcert.present.figures.canvas import (
    COLOURS,
    DASHES,
    MARKERS,
    canvas,
    label,
    legend_above,
    radius_label,
    refuse_none,
    short,
)
from smoothcert.present.tables import RADIUS_DIGITS
from smoothcert.stats.rounding import down

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS = (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


@dataclass(frozen=True)
class Snapshot:
    """A model in the middle of its training: after how many seconds, and what was certified of it."""

    seconds: float
    results: Results


def progress_figure(trainings: Mapping[str, Sequence[Snapshot]]) -> Figure:
    """A rising step curve per training, and a point for each snapshot, also where it is worse than one before."""
    refuse_none([snapshot for snapshots in trainings.values() for snapshot in snapshots])
    figure, axes = canvas(6.0, 3.6 + 0.17 * len(trainings))
    latest = max(one.seconds for snapshots in trainings.values() for one in snapshots)
    unit, length = next((one for one in UNITS if latest >= 2 * one[1]), UNITS[-1])
    for number, (name, snapshots) in enumerate(trainings.items()):
        ordered = sorted(snapshots, key=lambda one: one.seconds)
        times = np.array([one.seconds / length for one in ordered])
        acr = np.array([average_certified_radius(one.results.records) for one in ordered])
        best = np.maximum.accumulate(acr)
        colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        title = f"best ACR {down(float(best[-1]), RADIUS_DIGITS)}   {short(name)}"
        axes.step(
            [*times, latest / length], [*best, best[-1]], where="post", color=colour, linestyle=dashes, label=title
        )
        axes.plot(times, acr, MARKERS[number % len(MARKERS)], color=colour, markersize=4, alpha=0.6, clip_on=False)
    everyone = [one.results for snapshots in trainings.values() for one in snapshots]
    label(axes, f"Training time ({unit})", f"Average certified {radius_label(everyone)}, best so far")
    axes.set_xlim(0, 1.02 * latest / length or 1)
    axes.set_ylim(bottom=0)
    legend_above(axes)
    return figure
