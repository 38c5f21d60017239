"""What all figures share: one look, and how they are written. matplotlib is loaded only when one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smoothcert.analysis.model_fit import MemberLogits
from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError
from smoothcert.core.files import write_whole
from smoothcert.core.registry import Registry
from smoothcert.present.exports import NORMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FEWEST_DRAWS = 100


@dataclass(frozen=True)
class Planned:
    """What a figure of members is about besides them: sizes of ensembles, and how they would be certified."""

    sizes: tuple[int, ...] = (1, 3, 5, 10, 50)
    n: int = 1_000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise InputError(f"sizes must be at least 1, got {list(self.sizes)}")
        if self.n < FEWEST_DRAWS:
            raise InputError(f"n must be at least {FEWEST_DRAWS} for a distribution of radii, got {self.n}")


FIGURES: Registry[Callable[[Sequence[Results]], Figure]] = Registry("figure")
"""Figures of any number of results, by the name that `analyze --kind` has: functions that give the figure."""

MEMBER_FIGURES: Registry[Callable[[MemberLogits, Planned], Figure]] = Registry("figure of members")
"""Figures of what the members of an ensemble say under noise, by the name that `figure members` has."""

SUFFIXES = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# Okabe & Ito (2008): told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v")
INK, FAINT = "#333333", "#999999"
LONGEST_NAME = 52


def canvas(width: float = 5.6, height: float = 3.5) -> tuple[Figure, Axes]:
    """An empty figure with dressed axes; no global state of matplotlib is touched."""
    figure, ((axes,),) = panels(1, 1, width, height)
    return figure, axes


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure with dressed axes in rows and columns."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second that only figures should cost)

    figure = Figure(figsize=(width, height), dpi=200, layout="constrained")
    found = figure.subplots(rows, columns, squeeze=False)
    for axes in found.flat:
        axes.grid(color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(FAINT)
        axes.tick_params(which="both", color=FAINT, labelcolor=INK, labelsize=9)
    return figure, found.tolist()


def heading(axes: Axes, text: str) -> None:
    """A short title above one of several axes, at its left."""
    axes.set_title(text, loc="left", color=INK, fontsize=10)


def label(axes: Axes, x: str, y: str, *, size: float = 10) -> None:
    """Name the axes."""
    axes.set_xlabel(x, color=INK, fontsize=size)
    axes.set_ylabel(y, color=INK, fontsize=size)


def legend_above(axes: Axes) -> None:
    """The legend above the axes: inside, some set of curves would run through it."""
    legend = axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.02), borderaxespad=0, frameon=False, fontsize=8, labelcolor=INK
    )
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)  # a faint point is hard to tell from another


def save(figure: Figure, path: str | Path) -> Path:
    """Write a PNG, SVG or PDF file, by suffix, whole or not at all. Equal figures give equal files."""
    import matplotlib as mpl  # noqa: PLC0415

    path = Path(path)
    check_name(path)
    drawn, suffix = io.BytesIO(), path.suffix.lower()
    with mpl.rc_context({"svg.hashsalt": "smoothcert", "pdf.fonttype": 42}):
        figure.savefig(drawn, format=suffix[1:], metadata=SUFFIXES[suffix])
    try:
        write_whole(path, drawn.getvalue())
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); give a file in a folder that exists") from None
    return path


def draw(kind: str, results: Sequence[Results], path: str | Path) -> Path:
    """Draw a figure of `FIGURES` to a PNG, SVG or PDF file, by suffix."""
    check_name(path)
    return save(FIGURES.find(kind)(results), path)


def check_name(path: str | Path) -> None:
    """Refuse a file name whose suffix is no format of a figure."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(f"the figure's name must end in {', '.join(SUFFIXES)}, got {Path(path).name!r}")


def refuse_none(results: Sequence[object]) -> None:
    """Refuse an empty figure."""
    if not results:
        raise InputError("results must hold at least one run or log to draw")


def short(name: str, longest: int = LONGEST_NAME) -> str:
    """A legend wider than the figure would squeeze the curves: the middle of a long name goes.

    A dollar sign would begin mathematics.
    """
    cut = name if len(name) <= longest else f"{name[: longest // 2]}...{name[3 - longest // 2 :]}"
    return cut.replace("$", r"\$")


def radius_label(results: Iterable[Results]) -> str:
    """The norms of radii, if known, in front of "radius"."""
    known = sorted({result.norm for result in results if result.norm is not None})
    return " ".join(filter(None, [" and ".join(NORMS.get(norm, norm) for norm in known), "radius"]))
