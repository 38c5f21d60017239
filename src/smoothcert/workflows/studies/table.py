"""The table of a study: what was measured beside what was published, paired by image, with what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from smoothcert.analysis.comparison import plus
from smoothcert.analysis.measures import Interval, mean_interval
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.present.tables import NOT_ASKED, radius_ends, radius_title
from smoothcert.stats.rounding import down, percent, up
from smoothcert.workflows.studies.study import Published

DIGITS = 4


@dataclass(frozen=True)
class Number:
    """A mean over images, with its 95% interval over images like these."""

    value: float
    interval: Interval

    @classmethod
    def of(cls, values: Sequence[float]) -> Number:
        """Of one value per image."""
        return cls(math.fsum(values) / len(values), mean_interval(values, seed=0))


@dataclass(frozen=True)
class TableRow:
    """A row: measured, published, and what it cost.

    Args:
        name: of the row.
        sigma: of its noise.
        acr: over images; of several seeds, of each image's mean over them.
        deviation: of the ACR over seeds; None with one.
        accuracy: certified, at the radii of the table, as shares; None where the row was not asked.
        difference: of the ACR to the baseline, paired by image; None for the baseline itself, or other images.
        published: what the paper has.
        inputs: how many images, and which.
        training_seconds: of all members together, as they were trained here; None where models were given.
        parameters, flops: of all members together; FLOPs are two per multiplication and addition of one image.
        draws: per image, of the noise.
        evaluations: of a network, per image: every member asked, and what a search for sigma or weights takes.
        cost: draws saved, members asked, in words.
    """

    name: str
    sigma: float
    acr: Number
    deviation: float | None
    accuracy: tuple[Number | None, ...]
    difference: Number | None
    published: Published | None
    inputs: str
    training_seconds: float | None
    parameters: int | None
    flops: int | None
    draws: float | None = None
    evaluations: float | None = None
    cost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """What a study came to."""

    title: str
    citation: str
    scale: str
    radii: tuple[float, ...]
    rows: tuple[TableRow, ...]
    baseline: str
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in full precision."""
        return asdict(self)

    def titles(self) -> list[str]:
        """Of the columns."""
        at = [f"% at {radius_title(radius)}" for radius in self.radii]
        return [
            "ACR",
            "published ACR",
            "against the baseline" if "{sigma}" in self.baseline else f"against {self.baseline}",
            *at,
            "draws",
            "evaluations",
            "training",
            "parameters",
            "FLOPs",
        ]

    def cells(self, row: TableRow) -> list[str]:
        """Of one row, under the titles; claims are rounded down, published numbers stand in square brackets."""
        said = row.published or Published()
        spread = "" if row.deviation is None else f" ± {up(row.deviation, DIGITS)}"
        ends = "-".join(radius_ends(row.acr.interval))
        theirs = ["" if share == "-" else f" [{share:g}]" for share in said.accuracy]
        theirs += [""] * (len(row.accuracy) - len(theirs))
        shares = [NOT_ASKED if ours is None else percent(ours.value) for ours in row.accuracy]
        accuracy = [f"{ours}{beside}" for ours, beside in zip(shares, theirs, strict=True)]
        return [
            f"{down(row.acr.value, DIGITS)}{spread} ({ends})",
            "" if said.acr is None else f"[{said.acr:g}]",
            "" if row.difference is None else _difference(row.difference),
            *accuracy,
            *("" if cost is None else f"{cost:,.0f}" for cost in (row.draws, row.evaluations)),
            "" if row.training_seconds is None else _time(row.training_seconds),
            "" if row.parameters is None else f"{row.parameters:,}",
            "" if row.flops is None else f"{row.flops / 1e6:,.1f} M",
        ]

    @property
    def caption(self) -> str:
        """What the numbers are."""
        said = any(row.published for row in self.rows)
        seeds = any(row.deviation is not None for row in self.rows)
        each = (
            f": {self.baseline.replace('{sigma}', 'S')} for the rows of sigma S" if "{sigma}" in self.baseline else ""
        )
        return " ".join(
            [
                f"{self.citation}; here at the scale {self.scale}.",
                *(["In square brackets: published, on the paper's own data, networks and images."] if said else []),
                "ACR with its 95% interval over images like these"
                + ("; ± is the deviation over seeds." if seeds else "."),
                *([f"Differences are paired by image{each}."] if self.baseline else []),
                "Draws, and evaluations of a network, are per image.",
                "FLOPs: two per multiplication and addition, of one image.",
            ]
        )

    def markdown(self) -> str:
        """For documents."""
        columns = self._columns()
        lines = [f"# {self.title}", "", _line(["", *columns]), _line(["---", *["---:"] * len(columns)])]
        lines += [_line([row.name, *(some[i] for some in columns.values())]) for i, row in enumerate(self.rows)]
        lines += ["", self.caption, *(f"\n{note}" for note in self._remarks())]
        return "\n".join(lines) + "\n"

    def for_terminal(self) -> FittingTable:
        """For a terminal of any width."""
        columns = [Column(title, [Text(cell) for cell in cells]) for title, cells in self._columns().items()]
        caption = "\n".join([self.caption, *self._remarks()])
        return FittingTable([Text(row.name) for row in self.rows], columns, title=self.title, caption=caption)

    def _columns(self) -> dict[str, list[str]]:
        """Cells by title, without the columns that have nothing in them."""
        rows = [self.cells(row) for row in self.rows]
        found = {title: [row[i] for row in rows] for i, title in enumerate(self.titles())}
        return {title: cells for title, cells in found.items() if any(cells)}

    def _remarks(self) -> list[str]:
        inputs = sorted({row.inputs for row in self.rows})
        unknown = any(None in row.accuracy for row in self.rows)
        lower = "its ACR, and accuracy at radii in between, are lower bounds"
        not_asked = [f"{NOT_ASKED}: the row was not asked about such radii; {lower}."] if unknown else []
        costs = [f"{row.name}: {cost}" for row in self.rows for cost in row.cost]
        more = [
            f"{row.name}, published: " + ", ".join(f"{key} {value}" for key, value in row.published.more.items())
            for row in self.rows
            if row.published is not None and row.published.more
        ]
        return [f"Inputs: {'; '.join(inputs)}.", *not_asked, *costs, *more, *self.notes]


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _difference(number: Number) -> str:
    low, high = plus(down(number.interval.low, DIGITS)), plus(up(number.interval.high, DIGITS))
    return f"{plus(down(number.value, DIGITS))} ({low} to {high})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
