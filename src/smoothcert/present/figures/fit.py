"""Whether members' logits are as Gaussian as the model of ensembles has them (Horvath et al. 2022, figures 8 and 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.model_fit import MemberLogits, normalised, normalised_cdf
from smoothcert.present.figures.canvas import COLOURS, INK, MEMBER_FIGURES, Planned, heading, label, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
BINS = 48
REACH = 4.0  # standard deviations that are shown


@MEMBER_FIGURES.named("fit")
def fit_figure(logits: MemberLogits, _: Planned) -> Figure:
    """Four distributions over all inputs and classes, beside what the model says of as many members and draws.

    What is learned, f(x) and the mean over noise, is normalised by the members' own mean and deviation; what noise
    adds, by its deviation; the mean that it adds is in units of that deviation, too.
    """
    logits.at_least(3, "the figure")
    mean = logits.noisy.mean(axis=1)  # (N, k, C)
    deviation = logits.noisy.std(axis=1, ddof=1)
    varies = deviation > 0
    figure, ((a, b), (c, d)) = panels(2, 2, 8.4, 6.4)
    k, draws = logits.members, logits.noisy.shape[1]
    for axes, values, title in (
        (a, logits.clean, "a  What members have learned: $f(x)$"),
        (b, mean, "b  The same as the mean of $f(x')$ over noise"),
    ):
        _histogram(axes, normalised(values, axis=1), COLOURS[0], f"{k} members")
        _model(axes, k, f"Gaussian, seen through {k} members")
        heading(axes, title)
        label(axes, "Normalised over members", "Probability density", size=9)
    scaled = (logits.noisy - logits.clean[:, None]) / np.where(varies, deviation, np.inf)[:, None]
    _histogram(c, scaled[np.broadcast_to(varies[:, None], scaled.shape)], COLOURS[1], "$f(x') - f(x)$")
    _histogram(c, normalised(logits.noisy, axis=1), COLOURS[0], "$f(x')$ minus its mean")
    _model(c, draws, "Gaussian")
    heading(c, "c  What noise adds")
    label(c, "In its standard deviations", "Probability density", size=9)
    shift = ((mean - logits.clean) / np.where(varies, deviation, np.inf))[varies]
    _histogram(d, shift, COLOURS[1], f"median size {np.median(np.abs(shift)):.2f}")
    d.axvline(0, color=INK, linewidth=1.0, linestyle="--", label="local linearity: 0")
    heading(d, "d  What noise adds in the mean")
    label(d, "In standard deviations of what noise adds", "Probability density", size=9)
    for axes in (a, b, c, d):
        axes.set_xlim(-REACH, REACH)
        axes.set_ylim(0, 1.35 * axes.get_ylim()[1])  # room for the legend
        axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper left")
    return figure


def _edges() -> Array:
    return np.linspace(-REACH, REACH, BINS + 1)


def _histogram(axes: Axes, values: Array, colour: str, title: str) -> None:
    edges = _edges()
    density = np.histogram(values, edges)[0] / max(1, values.size) / np.diff(edges)  # of all, also of those outside
    axes.stairs(density, edges, fill=True, color=colour, alpha=0.22)
    axes.stairs(density, edges, color=colour, linewidth=1.2, label=title)


def _model(axes: Axes, count: int, title: str) -> None:
    """What Gaussian numbers look like that are normalised by mean and deviation of `count` of them."""
    edges = _edges()
    density = np.diff(normalised_cdf(edges, count)) / np.diff(edges)
    axes.plot((edges[1:] + edges[:-1]) / 2, density, color=INK, linewidth=1.2, linestyle="--", label=title)
