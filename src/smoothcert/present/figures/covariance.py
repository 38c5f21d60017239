"""Covariances of members' logits, measured and modelled (Horvath et al. 2022, figures 10 and 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.model_fit import MemberLogits, clean_covariance, noise_covariance, parts_covariance
from smoothcert.present.figures.canvas import INK, MEMBER_FIGURES, Planned, heading, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Array = npt.NDArray[np.float64]


@MEMBER_FIGURES.named("independence")
def independence_figure(logits: MemberLogits, _: Planned) -> Figure:
    """Whether what members have learned and what noise adds are uncorrelated: the blocks off the diagonal are 0."""
    mean, clean = (parts_covariance(logits, of_mean=of_mean) for of_mean in (True, False))
    figure, ((left, right),) = panels(1, 2, 9.2, 4.6)
    limit = _limit(mean.matrix, clean.matrix)
    names = ("learned", "noise adds")
    _map(left, mean.matrix, limit, names)
    heading(left, "a  Learned: the mean of $f(x')$ over noise")
    drawn = _map(right, clean.matrix, limit, names)
    heading(right, "b  Learned: $f(x)$")
    _bar(figure, drawn, [left, right])
    return figure


@MEMBER_FIGURES.named("covariance")
def covariance_figure(logits: MemberLogits, _: Planned) -> Figure:
    """Covariances of the logits of two members: measured, the difference, and zeta times those of one member."""
    figure, rows = panels(2, 3, 11.0, 7.2)
    parts = (
        ("What is learned, $f(x)$", "c", clean_covariance(logits)),
        ("What noise adds", "p", noise_covariance(logits)),
    )
    for axes, (what, index, found) in zip(rows, parts, strict=True):
        measured, modelled = found.measured.matrix, found.modelled.matrix
        limit, names = _limit(measured, modelled), ("one member", "another")
        shown = (
            (measured, f"{what}: measured"),
            (measured - modelled, "measured minus modelled"),
            (modelled, f"modelled, $\\zeta_{index}$ = {found.zeta:.2f}"),
        )
        for one, (matrix, title) in zip(axes, shown, strict=True):
            drawn = _map(one, matrix, limit, names)
            heading(one, title)
        _bar(figure, drawn, axes)
    return figure


def _limit(*matrices: Array) -> float:
    return max(float(np.abs(matrix).max()) for matrix in matrices) or 1.0


def _map(axes: Axes, matrix: Array, limit: float, names: tuple[str, str]) -> AxesImage:
    """A matrix of two by two blocks in colours from -limit to limit."""
    drawn = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    half = len(matrix) / 2
    axes.axhline(half - 0.5, color=INK, linewidth=0.7)
    axes.axvline(half - 0.5, color=INK, linewidth=0.7)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    middles = [half / 2 - 0.5, 3 * half / 2 - 0.5]
    axes.set_xticks(middles, names, fontsize=9, color=INK)
    axes.set_yticks(middles, names, fontsize=9, color=INK, rotation=90, va="center")
    axes.tick_params(length=0)
    return drawn


def _bar(figure: Figure, drawn: AxesImage, axes: list[Axes]) -> None:
    bar = figure.colorbar(drawn, ax=axes, shrink=0.85, pad=0.02)
    bar.set_label("Covariance of logits, mean over inputs", color=INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, labelcolor=INK)
    bar.outline.set_visible(False)
