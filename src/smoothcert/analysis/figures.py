"""Figures from records. matplotlib is loaded only when one is drawn, and no global state of it is touched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.measures import average_certified_radius, certified_shares
from smoothcert.analysis.results import Results
from smoothcert.analysis.tables import RADIUS_DIGITS
from smoothcert.errors import InputError
from smoothcert.stats.rounding import down

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# Okabe & Ito (2008): told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")
INK = "#333333"
LONGEST_NAME = 52


def radius_accuracy(results: Sequence[Results], path: str | Path) -> Path:
    """Draw certified accuracy over radius, one step curve per result, to a PNG, SVG or PDF file (by suffix).

    A curve is the exact share at every radius; its band is the pointwise 95% Clopper-Pearson interval. The legend has
    the ACR, rounded down. Equal results give an equal file.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"the figure's name must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not results:
        raise InputError("results must hold at least one run or log to draw")
    import matplotlib as mpl  # noqa: PLC0415  (half a second that only figures should cost)
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(5.6, 3.5 + 0.17 * len(results)), dpi=200, layout="constrained")
    axes = figure.add_subplot()
    for number, result in enumerate(results):
        _draw(axes, result, COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)])
    _dress(axes, results)
    try:
        with mpl.rc_context({"svg.hashsalt": "smoothcert", "pdf.fonttype": 42}):
            figure.savefig(path, metadata=SUFFIXES[path.suffix.lower()])
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); give a file in a folder that exists") from None
    return path


def _draw(axes: Axes, result: Results, colour: str, dashes: str) -> None:
    radii, (value, low, high) = _steps(result)
    acr = down(average_certified_radius(result.records), RADIUS_DIGITS)
    label = f"ACR {acr}   {_short(result.name)}".replace("$", r"\$")
    axes.fill_between(radii, low, high, step="pre", color=colour, alpha=0.13, linewidth=0)
    axes.step(radii, value, where="pre", color=colour, linestyle=dashes, linewidth=1.4, label=label)


def _steps(result: Results) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Corners of the curve: (k,) radii, and (3, k) percentages (share, low, high) that hold down from each radius."""
    radii = sorted(_reached(result))
    shares = certified_shares(result.records, radii)
    intervals = {share.count: share.interval for share in shares}
    ends = [(s.value, intervals[s.count].low, intervals[s.count].high) for s in shares]
    corners = np.array([*ends, (0.0, 0.0, 0.0)]).T  # (3, k + 1): beyond the last radius nothing is certified
    return np.array([*radii, radii[-1]]), 100 * corners


def _reached(result: Results) -> set[float]:
    return {0.0} | {record.radius for record in result.records if record.correct and not record.abstained}


def _dress(axes: Axes, results: Sequence[Results]) -> None:
    norms = sorted({result.norm for result in results if result.norm is not None})
    largest = max(max(_reached(result)) for result in results)
    axes.set_xlabel(" ".join(["Certified", " and ".join(map(_pretty, norms)), "radius"]).replace("  ", " "), color=INK)
    axes.set_ylabel("Certified accuracy (%)", color=INK)
    axes.set_xlim(0, 1.02 * largest or 1)
    axes.set_ylim(0, 100)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(color="#999999", labelcolor=INK, labelsize=9)
    # Above the axes: inside, some set of curves would run through it.
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), borderaxespad=0, frameon=False, fontsize=8, labelcolor=INK)


def _short(name: str) -> str:
    """A legend wider than the figure would squeeze the curves: the middle of a long name goes."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}...{name[3 - LONGEST_NAME // 2 :]}"


def _pretty(norm: str) -> str:
    return {"l0": r"$\ell_0$", "l1": r"$\ell_1$", "l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}.get(norm, norm)
