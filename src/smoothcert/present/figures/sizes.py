"""ACR against the size of an ensemble (Horvath et al. 2022, figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.analysis.measures import acr_interval, average_certified_radius
from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError
from smoothcert.present.figures.canvas import (
    COLOURS,
    FIGURES,
    canvas,
    check_name,
    label,
    radius_label,
    refuse_none,
    save,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def acr_by_size(sized: Sequence[tuple[int, Results]], path: str | Path) -> Path:
    """Draw the ACR over the number of members k, from pairs (k, results), with its 95% bootstrap interval."""
    check_name(path)
    return save(acr_by_size_figure(sized), path)


def acr_by_members(results: Sequence[Results], path: str | Path) -> Path:
    """`acr_by_size` of runs, each of which says how many members its ensemble has; a single model is one member."""
    check_name(path)
    return save(acr_by_members_figure(results), path)


@FIGURES.named("members")
def acr_by_members_figure(results: Sequence[Results]) -> Figure:
    """The figure of `acr_by_members`."""
    return acr_by_size_figure([(_members(result), result) for result in results])


def _members(result: Results) -> int:
    model = result.settings.model
    if model is None:
        raise InputError(f"{result.name} does not say which model it certified, so nobody knows of how many members")
    members = model.members
    if members is None:
        raise InputError(f"{result.name} does not say how many members its ensemble has; certify it again")
    return members


def acr_by_size_figure(sized: Sequence[tuple[int, Results]]) -> Figure:
    """The figure of `acr_by_size`: a point with an interval per result; the line joins the means of equal k."""
    from matplotlib.ticker import FixedLocator, MaxNLocator  # noqa: PLC0415

    refuse_none(sized)
    for k, _ in sized:
        if type(k) is not int or k < 1:
            raise InputError(f"the size of an ensemble must be a positive whole number, got {k!r}")
    figure, axes = canvas()
    found: dict[int, list[float]] = {}
    for k, result in sorted(sized, key=lambda pair: pair[0]):
        acr, interval = average_certified_radius(result.records), acr_interval(result.records, seed=0)
        found.setdefault(k, []).append(acr)
        reach = [[max(0.0, acr - interval.low)], [max(0.0, interval.high - acr)]]
        axes.errorbar([k], [acr], yerr=reach, fmt="o", color=COLOURS[0], markersize=5, capsize=3, linewidth=1)
    means = [sum(values) / len(values) for values in found.values()]
    axes.plot(list(found), means, color=COLOURS[0], linewidth=1.4, zorder=1)
    label(axes, "Members of the ensemble", f"Average certified {radius_label(result for _, result in sized)}")
    axes.xaxis.set_major_locator(FixedLocator(list(found)) if len(found) <= 10 else MaxNLocator(integer=True))
    axes.margins(x=0.06, y=0.1)
    return figure
