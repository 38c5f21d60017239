"""The table of a study: what was measured beside what was published, paired by image, with what it cost."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.text import Text
from torch.utils.flop_counter import FlopCounterMode

from smoothcert.analysis import Results, read, summarise
from smoothcert.analysis.comparison import decided_radii, plus
from smoothcert.analysis.measures import Interval, asked_up_to, gains, mean_interval, right
from smoothcert.analysis.results import other_data
from smoothcert.models import load
from smoothcert.present.fitting import Column, FittingTable
from smoothcert.present.tables import NOT_ASKED, radius_ends, radius_title
from smoothcert.stats.rounding import down, percent, up
from smoothcert.workflows.studies.plan import Plan, Row
from smoothcert.workflows.studies.study import Cell, Published

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
        difference: of the ACR to the baseline, paired by image; None for the baseline itself, other images, or where
            other radii were asked about.
        published: what the paper has.
        inputs: how many images, and which.
        training_seconds: of all members together, as they were trained here; None where models were given.
        parameters, flops: of all members together; FLOPs are two per multiplication and addition of one image.
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
            f"against {self.baseline or 'baseline'}",
            *at,
            "training",
            "parameters",
            "FLOPs",
        ]

    def cells(self, row: TableRow) -> list[str]:
        """Of one row, under the titles; claims are rounded down, published numbers stand in square brackets."""
        said = row.published or Published()
        spread = "" if row.deviation is None else f" ± {up(row.deviation, DIGITS)}"
        ends = "-".join(radius_ends(row.acr.interval))
        accuracy = [
            (NOT_ASKED if ours is None else percent(ours.value))
            + (f" [{said.accuracy[place]:g}]" if place < len(said.accuracy) else "")
            for place, ours in enumerate(row.accuracy)
        ]
        return [
            f"{down(row.acr.value, DIGITS)}{spread} ({ends})",
            "" if said.acr is None else f"[{said.acr:g}]",
            "" if row.difference is None else _difference(row.difference),
            *accuracy,
            "" if row.training_seconds is None else f"{row.training_seconds / 60:.1f} min",
            "" if row.parameters is None else f"{row.parameters:,}",
            "" if row.flops is None else f"{row.flops / 1e6:,.1f} M",
        ]

    @property
    def caption(self) -> str:
        """What the numbers are."""
        return (
            f"{self.citation}; here at the scale {self.scale}. In square brackets: published, on the paper's own data, "
            "networks and images. ACR with its 95% interval over images like these; ± is the deviation over seeds. "
            "Differences are paired by image. FLOPs: two per multiplication and addition, of one image."
        )

    def markdown(self) -> str:
        """For documents."""
        titles = ["", *self.titles()]
        lines = [f"# {self.title}", "", _line(titles), _line(["---", *["---:"] * (len(titles) - 1)])]
        lines += [_line([row.name, *self.cells(row)]) for row in self.rows]
        lines += ["", self.caption, *(f"\n{note}" for note in self._remarks())]
        return "\n".join(lines) + "\n"

    def for_terminal(self) -> FittingTable:
        """For a terminal of any width."""
        cells = [self.cells(row) for row in self.rows]
        columns = [Column(title, [Text(row[i]) for row in cells]) for i, title in enumerate(self.titles())]
        columns = [column for column in columns if any(cell.plain for cell in column.cells)]
        caption = "\n".join([self.caption, *self._remarks()])
        return FittingTable([Text(row.name) for row in self.rows], columns, title=self.title, caption=caption)

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


def tabulate(plan: Plan, out: Path, runs: Mapping[str, Sequence[Path]]) -> Table:
    """Read the runs of every row, and put them beside what was published."""
    results = {name: [read(path) for path in paths] for name, paths in runs.items()}
    found = {row.cell.name: _row(plan, row, results, out) for row in plan.rows}
    found |= {cell.name: _envelope(cell, found) for cell in plan.envelopes}
    rows = tuple(found[cell.name] for cell in plan.study.cell if cell.name in found)
    left = tuple(f"Not at this scale: {reason}." for reason in plan.left_out)
    about = plan.study.scale[plan.scale].about
    notes = (*([about] if about else []), *plan.study.notes, *left)
    study = plan.study
    return Table(study.title, study.citation, plan.scale, study.radii, rows, study.baseline, notes)


def _row(plan: Plan, row: Row, results: Mapping[str, Sequence[Results]], out: Path) -> TableRow:
    own, study = results[row.cell.name], plan.study
    each = [gains(result.records) for result in own]
    limit = min(asked_up_to(result.records) for result in own)
    accuracy = tuple(
        Number.of(_means([_reached(one, radius) for one in own])) if radius <= limit else None for radius in study.radii
    )
    acrs = [math.fsum(some) / len(some) for some in each]
    base = study.baseline.format(sigma=f"{row.cell.sigma:.2f}")
    summary = summarise(own[:1], study.radii)
    parameters, flops = _size(row, out)
    return TableRow(
        name=row.cell.name,
        sigma=row.cell.sigma,
        acr=Number.of(_means(each)),
        deviation=statistics.stdev(acrs) if len(acrs) > 1 else None,
        accuracy=accuracy,
        difference=None if base == row.cell.name or base not in results else _paired(own, results[base]),
        published=row.cell.published,
        inputs=f"{len(own[0].records)} of {row.data}, {own[0].subset}",
        training_seconds=_training(row, out),
        parameters=parameters,
        flops=flops,
        cost=tuple(cost.partition(": ")[2] for cost in summary.costs),
    )


def _envelope(cell: Cell, rows: Mapping[str, TableRow]) -> TableRow:
    """The largest of each number, column by column, as in the papers: no ensemble is compared with a lucky choice."""
    some = [rows[name] for name in cell.envelope]
    return TableRow(
        name=cell.name,
        sigma=cell.sigma,
        acr=max((row.acr for row in some), key=lambda number: number.value),
        deviation=None,
        accuracy=tuple(_largest(at) for at in zip(*(row.accuracy for row in some), strict=True)),
        difference=None,
        published=cell.published,
        inputs=some[0].inputs,
        training_seconds=None,
        parameters=None,
        flops=None,
    )


def _largest(numbers: Sequence[Number | None]) -> Number | None:
    return max((one for one in numbers if one is not None), key=lambda number: number.value, default=None)


def _means(values: Sequence[Sequence[float]]) -> list[float]:
    """Of each image, over seeds."""
    return [math.fsum(some) / len(some) for some in zip(*values, strict=True)]


def _reached(result: Results, radius: float) -> list[float]:
    return [float(right(record) and record.radius >= radius) for record in result.records]


def _paired(ours: Sequence[Results], theirs: Sequence[Results]) -> Number | None:
    """The difference of each image's mean gain, if the images are the same ones, and so is what was asked of them."""
    both = (*ours, *theirs)
    if any(one.indices != ours[0].indices or other_data(one, ours[0]) for one in both):
        return None
    if len({decided_radii(one) for one in both}) > 1:
        return None
    a, b = (_by_index(some) for some in (ours, theirs))
    return Number.of([a[index] - b[index] for index in a])


def _by_index(results: Sequence[Results]) -> dict[int, float]:
    some = [dict(zip((r.index for r in one.records), gains(one.records), strict=True)) for one in results]
    return {index: math.fsum(one[index] for one in some) / len(some) for index in some[0]}


def _training(row: Row, out: Path) -> float | None:
    """Seconds of all members, from their logs."""
    total = 0.0
    for member in row.members:
        log = member.path(out).parent / "log.jsonl"
        if member.recipe is None or not log.exists():
            return None
        total += sum(float(json.loads(line)["seconds"]) for line in log.read_text().splitlines())
    return total if row.cell.aggregation else total / len(row.members)


def _size(row: Row, out: Path) -> tuple[int | None, int | None]:
    """Parameters and FLOPs of what answers: an ensemble, or one network of the row."""
    parameters = flops = 0
    for member in row.members if row.cell.aggregation else row.members[:1]:
        if member.recipe is None:
            return None, None
        found = load(member.path(out))
        if not isinstance(found.model, torch.nn.Module) or found.architecture.input_shape is None:
            return None, None
        parameters += sum(one.numel() for one in found.model.parameters())
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            found.model(torch.zeros(1, *found.architecture.input_shape))
        flops += counter.get_total_flops()
    return parameters, flops


def _difference(number: Number) -> str:
    low, high = plus(down(number.interval.low, DIGITS)), plus(up(number.interval.high, DIGITS))
    return f"{plus(down(number.value, DIGITS))} ({low} to {high})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
