"""Where draws go: per input against its share of votes, and how soon inputs are decided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.present.figures.canvas import (
    COLOURS,
    DASHES,
    FAINT,
    FIGURES,
    INK,
    MARKERS,
    canvas,
    check_name,
    label,
    legend_above,
    refuse_none,
    save,
    short,
)
from smoothcert.runs import Record
from smoothcert.stats.rounding import down

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draws_by_votes(results: Sequence[Results], path: str | Path) -> Path:
    """Draw the draws that each input took over the top class's share of its votes, an estimate of p_A.

    Grey lines: the probabilities that the given radii need, where the procedure decides given radii. Draws pile up
    there: what lies close to a requirement is hard to decide.
    """
    check_name(path)
    return save(draws_by_votes_figure(results), path)


@FIGURES.named("draws")
def draws_by_votes_figure(results: Sequence[Results]) -> Figure:
    """The figure of `draws_by_votes`."""
    refuse_none(results)
    figure, axes = canvas(height=3.6 + 0.17 * len(results))
    needed = sorted({pair for result in results for pair in _required(result)})  # (radius, p)
    title = f"needed for radius {', '.join(f'{radius:g}' for radius in sorted({radius for radius, _ in needed}))}"
    for number, (_, p) in enumerate(needed):
        axes.axvline(p, color=FAINT, linewidth=0.9, linestyle="--", zorder=1, label="_" if number else title)
    for number, result in enumerate(results):
        points = np.array([_share_and_draws(result.name, record) for record in result.records])  # (n, 2)
        axes.scatter(
            points[:, 0],
            points[:, 1],
            s=16,
            marker=MARKERS[number % len(MARKERS)],
            color=COLOURS[number % len(COLOURS)],
            alpha=0.5,
            linewidth=0,
            label=f"mean {points[:, 1].mean():,.0f} draws   {short(result.name)}",
        )
    _log_draws(axes, "y")
    label(axes, "Share of votes for the top class", "Draws per input")
    axes.margins(x=0.03, y=0.1)
    legend_above(axes)
    return figure


def draws_saved(results: Sequence[Results], path: str | Path) -> Path:
    """Draw the share of inputs decided within so many draws; a dotted line at what `Fixed` takes for as much.

    The legend has SampleRF (Horvath et al. 2022): by how many times the draws are fewer.
    """
    check_name(path)
    return save(draws_saved_figure(results), path)


@FIGURES.named("saved")
def draws_saved_figure(results: Sequence[Results]) -> Figure:
    """The figure of `draws_saved`."""
    refuse_none(results)
    figure, axes = canvas(height=3.4 + 0.17 * len(results))
    fixed = [n for result in results if (n := result.settings.fixed_draws) is not None]
    taken = [np.sort([_share_and_draws(result.name, record)[1] for record in result.records]) for result in results]
    end = 1.15 * max([*fixed, *(draws[-1] for draws in taken)])
    for n in sorted(set(fixed)):
        axes.axvline(n, color=INK, linewidth=1, linestyle=":", zorder=1, label=f"fixed: {n:,} draws")
    for number, (result, draws) in enumerate(zip(results, taken, strict=True)):
        shares = 100 * np.arange(1, len(draws) + 1) / len(draws)
        axes.step(
            [draws[0], *draws, end],
            [0, *shares, 100],
            where="post",
            color=COLOURS[number % len(COLOURS)],
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
            linewidth=1.5,
            label=_saved(result, float(draws.mean())),
        )
    _log_draws(axes, "x")
    label(axes, "Draws", "Inputs decided (%)")
    axes.set_ylim(0, 102)
    axes.set_xlim(right=end)
    legend_above(axes)
    return figure


def _saved(result: Results, mean: float) -> str:
    fixed = result.settings.fixed_draws
    factor = "" if fixed is None else f"SampleRF {down(fixed / mean, 1)}   "
    return f"{factor}{short(result.name)}"


def _share_and_draws(name: str, record: Record) -> tuple[float, int]:
    if record.certificate is not None and record.certificate.route is not None:
        raise InputError(f"{name} has a router, and this figure shows the votes of one classifier; give another run")
    if record.certificate is None or not sum(record.certificate.votes) or record.draws is None:
        raise InputError(f"{name} keeps no votes and draws to show; give a run made by certify")
    votes = record.certificate.votes
    return max(votes) / sum(votes), record.draws


def _required(result: Results) -> set[tuple[float, float]]:
    """Decided radii and the probabilities that they need, where the noise is known."""
    needed = set()
    for record in result.records:
        if record.certificate is not None and record.certificate.decisions:
            try:
                noise = Noise.from_description(record.certificate.noise)
            except InputError:
                return set()
            needed |= {(d.radius, noise.required_p(d.radius)) for d in record.certificate.decisions}
    return needed


def _log_draws(axes: Axes, which: str) -> None:
    """A logarithmic axis whose labels are numbers of draws."""
    from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: PLC0415

    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_minor_formatter(NullFormatter())
