"""Why an ensemble certifies more: margins, p_A and radii by its size (Horvath et al. 2022, figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothcert.analysis.model_fit import MemberLogits
from smoothcert.analysis.outcome_law import expected_radius, radius_distribution
from smoothcert.analysis.variance import Components, chebyshev, components, margins
from smoothcert.core.errors import InputError
from smoothcert.present.figures.canvas import (
    COLOURS,
    FAINT,
    INK,
    MEMBER_FIGURES,
    Planned,
    heading,
    label,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TELLING = 0.8
"""The success probability of one member at the input that is shown: there is something to gain, and to see."""
MORE_DRAWS = 50  # times n, for the comparison with one member that the paper makes


@MEMBER_FIGURES.named("margins")
def margins_figure(logits: MemberLogits, planned: Planned) -> Figure:
    """Of one input: the margin over the runner-up, p_A and the certified radius, for ensembles of each size.

    The input is the rightly answered one whose success probability with one member is nearest to 0.8.
    """
    logits.at_least(2, "the figure")
    model = components(logits.noisy)
    alone = model.success(1)
    right = model.top == logits.labels
    if not right.any():
        raise InputError("these members answer none of the inputs rightly; give members and data that go together")
    chosen = int(np.where(right, np.abs(alone - TELLING), np.inf).argmin())
    sizes = sorted(set(planned.sizes))
    success = {size: float(model.success(size)[chosen]) for size in sizes}
    figure, ((left, middle, last),) = panels(1, 3, 11.5, 3.9)
    _margins(left, logits, model, chosen, sizes)
    _success(middle, logits, model, chosen, success)
    _radii(last, success, logits.sigma, planned)
    figure.suptitle(
        f"Input {logits.names[chosen]}, {logits.members} members, $\\sigma$ = {logits.sigma:g}: "
        f"$\\zeta_c$ = {model.zeta_c:.2f}, $\\zeta_p$ = {model.zeta_p:.2f}",
        x=0.01, ha="left", color=INK, fontsize=10,
    )  # fmt: skip
    return figure


def _margins(axes: Axes, logits: MemberLogits, model: Components, chosen: int, sizes: list[int]) -> None:
    """Gaussians of the model, and what was sampled of one member and of all."""
    rival = int(model.rivals[chosen, 0])
    mean = model.mean[chosen, rival]
    sampled = margins(logits.noisy)[1][chosen, :, :, rival]  # (draws, k)
    widest = 4 * float(np.sqrt(model.variance(1)[chosen, rival]))
    edges = np.linspace(mean - widest, mean + widest, 41)
    for number, size in enumerate(sizes):
        deviation = float(np.sqrt(model.variance(size)[chosen, rival]))
        z = np.linspace(edges[0], edges[-1], 400)
        density = np.exp(-(((z - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
        axes.plot(z, density, color=_colour(number), linewidth=1.4, label=_members(size))
    axes.hist(
        sampled.ravel(), bins=edges.tolist(), density=True, color=FAINT, alpha=0.3, zorder=1, label="sampled, 1 member"
    )
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_ylim(0, 1.45 * axes.get_ylim()[1])  # room for the legend
    heading(axes, "a  Margin over the runner-up")
    label(axes, "Margin (wrong below 0)", "Probability density", size=9)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper left", ncols=2)


def _success(axes: Axes, logits: MemberLogits, model: Components, chosen: int, success: dict[int, float]) -> None:
    """The orthant integral, Chebyshev's bound, and shares of draws of ensembles that there are."""
    sizes = list(success)
    at_least = [float(chebyshev(model.mean, model.variance(size))[chosen]) for size in sizes]
    axes.plot(sizes, list(success.values()), "o-", color=COLOURS[0], linewidth=1.4, markersize=4, label="Gaussian")
    axes.plot(sizes, at_least, "s--", color=COLOURS[1], linewidth=1.2, markersize=3.5, label="Chebyshev, at least")
    there = [size for size in sorted({*sizes, logits.members}) if size <= logits.members]
    measured = {size: measured_success(logits, chosen, int(model.top[chosen]), size) for size in there}
    points = np.array([(size, share) for size, shares in measured.items() for share in shares])
    axes.scatter(
        points[:, 0], points[:, 1], s=12, color=INK, alpha=0.45, linewidth=0, label="sampled, an ensemble each"
    )
    means = [float(np.mean(shares)) for shares in measured.values()]
    axes.scatter(there, means, s=40, marker="_", color=INK, linewidth=1.4, label="their mean")
    _log_sizes(axes, sizes)
    axes.set_ylim(-0.03, 1.03)
    heading(axes, "b  Success probability $p_A$")
    label(axes, "Members of the ensemble", "$p_A$", size=9)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="center right")


def measured_success(logits: MemberLogits, chosen: int, top: int, size: int) -> list[float]:
    """The share of draws on which ensembles of neighbouring members answer `top`; each member is in as many."""
    found = []
    for first in range(logits.members if size < logits.members else 1):
        which = [(first + i) % logits.members for i in range(size)]
        answers = logits.noisy[chosen][:, which].mean(axis=1).argmax(axis=1)  # (draws,)
        found.append(float((answers == top).mean()))
    return found


def _radii(axes: Axes, success: dict[int, float], sigma: float, planned: Planned) -> None:
    """Equation 6: the probability of each radius over the distance of its neighbours, a density.

    With many more draws there is hardly any spread: of that only the mean is drawn.
    """
    for number, (size, p) in enumerate(success.items()):
        radii, probability = radius_distribution(p, sigma, n=planned.n, alpha=planned.alpha)
        mean, missing = float(probability @ radii), max(0.0, 1 - float(probability.sum()))
        abstains = f", abstains {missing:.0%}" if missing >= 0.005 else ""
        seen = probability > probability.max() * 1e-4
        axes.plot(
            radii[seen], (probability / np.gradient(radii))[seen], color=_colour(number), linewidth=1.4,
            label=f"{_members(size)}: mean {mean:.3f}{abstains}",
        )  # fmt: skip
    least, more = min(success), MORE_DRAWS * planned.n
    mean = float(expected_radius(np.array([success[least]]), sigma, n=more, alpha=planned.alpha)[0])
    axes.set_ylim(0, 1.75 * axes.get_ylim()[1])  # room for the legend
    title = f"{_members(least)}, n = {more:,}: mean {mean:.3f}"
    axes.axvline(mean, ymax=1 / 1.75, color=INK, linestyle=":", linewidth=1.3, label=title)
    heading(axes, f"c  Certified radius, n = {planned.n:,}")
    label(axes, r"Certified $\ell_2$ radius", "Probability density", size=9)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper left")


def _members(size: int) -> str:
    return f"{size} member{'' if size == 1 else 's'}"


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _log_sizes(axes: Axes, sizes: list[int]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator  # noqa: PLC0415

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
