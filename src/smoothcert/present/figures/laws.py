"""What certification can be expected to say, exactly, from p_A alone (Horvath et al. 2022, figures 3 and 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothcert.analysis.outcome_law import expected_radius, first_stage
from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.present.figures.canvas import (
    COLOURS,
    DASHES,
    FAINT,
    INK,
    canvas,
    heading,
    label,
    panels,
)
from smoothcert.procedures import Staged
from smoothcert.stats.rounding import down

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST, MOST = 10, 1_000_000  # draws on the axis
USUAL_P = (0.6, 0.8, 0.9, 0.99, 0.999, 0.9999, 1.0)


def expected_radius_figure(p: Sequence[float] = USUAL_P, *, sigma: float = 0.25, alpha: float = 0.001) -> Figure:
    """The mean radius of `Fixed` over its number of draws, a curve for each true p_A, the largest first (figure 3).

    Far from 1, p_A decides the radius and more draws hardly help; at 1 it is the other way round.
    """
    if not p or not all(0 < one <= 1 for one in p):
        raise InputError(f"--p must be probabilities above 0, at most 1, got {list(p)}")
    figure, axes = canvas(6.4, 4.0)
    draws = np.geomspace(LEAST, MOST, 31).round().astype(int)
    truths = sorted(set(p), reverse=True)
    expected = np.array([expected_radius(np.array(truths), sigma, n=int(n), alpha=alpha) for n in draws])
    for number, (one, radii) in enumerate(zip(truths, expected.T, strict=True)):
        style = DASHES[number // len(COLOURS) % len(DASHES)]
        axes.plot(draws, radii, color=COLOURS[number % len(COLOURS)], linestyle=style, linewidth=1.4, label=f"{one:g}")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlim(LEAST, MOST)
    label(
        axes, "Draws $n$", rf"Expected certified $\ell_2$ radius ($\sigma$ = {sigma:g}, $\alpha$ = {alpha:g})", size=9
    )
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, title="true $p_A$", title_fontsize=8, loc="upper left")
    return figure


def stages_figure(
    noise: Noise, procedures: Sequence[tuple[str, Staged]], *, most: float = 1.0, least: float = 0.5
) -> Figure:
    """How the first stage of CertifyAdp ends by the true p_A: it certifies, gives up or goes on (figure 15).

    `procedures` are named for the legend; all have the same radius, and so need the same p_A: the grey line.
    """
    if not procedures or len({procedure.radius for _, procedure in procedures}) > 1:
        raise InputError("the figure needs procedures of one radius")
    required = noise.required_p(procedures[0][1].radius)
    p = np.linspace(least, most, 501)
    figure, (axes,) = panels(1, 3, 11.0, 3.6 + 0.17 * -(-(len(procedures) + 1) // 3))
    for number, (name, procedure) in enumerate(procedures):
        law = first_stage(p, procedure, required)
        colour, style = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        for one, probability in zip(axes, (law.certify, law.abstain, law.go_on), strict=True):
            one.plot(p, probability, color=colour, linestyle=style, linewidth=1.4, label=name)
    first = procedures[0][1].stages[0]
    titles = ("a  It certifies", "b  It gives up", "c  It goes on to the next stage")
    for one, title in zip(axes, titles, strict=True):
        needed = f"needed for radius {procedures[0][1].radius:g}: {down(required, 4)}"
        one.axvline(required, color=FAINT, linewidth=0.9, linestyle="-", zorder=1, label=needed)
        one.set_ylim(-0.02, 1.02)
        one.set_xlim(least, most)
        heading(one, title)
        label(one, "True $p_A$", f"Probability after the first {first:,} draws" if one is axes[0] else "", size=9)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=3, frameon=False, fontsize=8, labelcolor=INK)
    return figure
