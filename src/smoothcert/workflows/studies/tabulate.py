"""What the runs of a study come to: a row of the table for each of its rows, and the best of several."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from smoothcert.analysis import Results, oracle, read, summarise
from smoothcert.analysis.comparison import decided_radii
from smoothcert.analysis.envelope import NO_CLAIM
from smoothcert.analysis.measures import asked_up_to, average_certified_radius, gains, mean_draws, right
from smoothcert.analysis.results import other_data
from smoothcert.analysis.routes import choice_certain
from smoothcert.models import load
from smoothcert.runs.evaluations import evaluations
from smoothcert.stats.rounding import down
from smoothcert.workflows.studies.certifying import procedure_of, search_of, weights_of
from smoothcert.workflows.studies.plan import Plan, Row
from smoothcert.workflows.studies.study import Cell
from smoothcert.workflows.studies.table import DIGITS, Number, Table, TableRow


def tabulate(plan: Plan, out: Path, runs: Mapping[str, Sequence[Path]]) -> Table:
    """Read the runs of every row, and put them beside what was published."""
    results = {name: [read(path) for path in paths] for name, paths in runs.items()}
    found = {row.cell.name: _row(plan, row, results, out, runs[row.cell.name][0]) for row in plan.rows}
    for cell in plan.envelopes:
        found[cell.name] = _envelope(cell, found) if cell.envelope else _oracle(plan, cell, found, results)
    rows = tuple(found[cell.name] for cell in plan.study.cell if cell.name in found)
    left = tuple(f"Not at this scale: {reason}." for reason in plan.left_out)
    about = plan.study.scale[plan.scale].about
    notes = (*([about] if about else []), *_headrooms(plan, found), *plan.study.notes, *left)
    study = plan.study
    return Table(study.title, study.citation, plan.scale, study.radii, rows, study.baseline, notes)


def _row(plan: Plan, row: Row, results: Mapping[str, Sequence[Results]], out: Path, runs: Path) -> TableRow:
    own, study = results[row.cell.name], plan.study
    each = [gains(result.records) for result in own]
    acrs = [math.fsum(some) / len(some) for some in each]
    base = _baseline(plan, row.cell)
    summary = summarise(own[:1], study.radii)
    parameters, flops = _size(row, out)
    return TableRow(
        name=row.cell.name,
        sigma=row.cell.sigma,
        acr=Number.of(_means(each)),
        deviation=statistics.stdev(acrs) if len(acrs) > 1 else None,
        accuracy=_accuracy(own, study.radii, own),
        difference=None if base == row.cell.name or base not in results else _paired(own, results[base], own),
        published=row.cell.published,
        inputs=f"{len(own[0].records)} of {row.data}, {own[0].subset}",
        training_seconds=_training(row, out),
        parameters=parameters,
        flops=flops,
        draws=mean_draws(own[0].records),
        evaluations=_evaluations(row, own[0], runs),
        cost=(*(cost.partition(": ")[2] for cost in summary.costs), *_routing(row, own[0])),
    )


def _baseline(plan: Plan, cell: Cell) -> str:
    """The row that this one is compared with."""
    return cell.baseline or plan.study.baseline.format(sigma=f"{cell.sigma:.2f}")


def _oracle(plan: Plan, cell: Cell, rows: Mapping[str, TableRow], results: Mapping[str, Sequence[Results]]) -> TableRow:
    """For each image the best of the first runs of several rows, knowing the truth: what a choice could reach."""
    some = [results[name][0] for name in cell.oracle]
    best = oracle(some)
    base = _baseline(plan, cell)
    return TableRow(
        name=cell.name,
        sigma=cell.sigma,
        acr=Number.of(gains(best.records)),
        deviation=None,
        accuracy=_accuracy([best], plan.study.radii, some),
        difference=None if base not in results else _paired([best], results[base], some),
        published=cell.published,
        inputs=rows[cell.oracle[0]].inputs,
        training_seconds=None,
        parameters=None,
        flops=None,
        cost=(NO_CLAIM,),
    )


def _headrooms(plan: Plan, rows: Mapping[str, TableRow]) -> list[str]:
    """What each oracle has over the best of its rows, and how much of it each router has."""
    said = []
    for cell in plan.envelopes:
        if not cell.oracle:
            continue
        best = max((rows[name] for name in cell.oracle), key=lambda row: row.acr.value)
        room = rows[cell.name].acr.value - best.acr.value
        said.append(f"{cell.name}: ACR {room:+.4f} over the best of its rows, {best.name}.")
        for row in plan.rows:
            if row.cell.routes and room > 0:
                gained = rows[row.cell.name].acr.value - best.acr.value
                said.append(f"{row.cell.name}: {gained:+.4f}, which is {100 * gained / room:.0f}% of that.")
    return said


def _routing(row: Row, result: Results) -> list[str]:
    """Of a router: whom it chose, and what its own radius costs."""
    if not row.cell.routes or result.note is None:
        return []
    certain = average_certified_radius(choice_certain(result.records))
    return [f"{result.note}; if every choice held everywhere, the ACR would be {down(certain, DIGITS)}"]


def _evaluations(row: Row, result: Results, folder: Path) -> float | None:
    """Of a network, per image; None where draws are not known."""
    draws, (asked, _) = mean_draws(result.records), evaluations(folder)
    if draws is None:
        return None
    members = len(row.members) // row.cell.groups if row.cell.aggregation else 1
    found = sum(asked) / len(result.records) if asked else draws * members
    if (search := search_of(row)) is not None and (
        settled := search.resolve(procedure_of(row.certification).resolve())
    ) is not None:
        found += settled.evaluations
    if (weights := weights_of(row)) is not None and (own := weights.resolve()) is not None:
        found += members * own.evaluations
    return found


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


def _accuracy(
    results: Sequence[Results], radii: Sequence[float], asked: Sequence[Results]
) -> tuple[Number | None, ...]:
    """Of each image's mean over seeds, at radii that all of `asked` were asked about."""
    limit = min(asked_up_to(one.records) for one in asked)
    return tuple(Number.of(_means([_reached(one, r) for one in results])) if r <= limit else None for r in radii)


def _means(values: Sequence[Sequence[float]]) -> list[float]:
    """Of each image, over seeds."""
    return [math.fsum(some) / len(some) for some in zip(*values, strict=True)]


def _reached(result: Results, radius: float) -> list[float]:
    return [float(right(record) and record.radius >= radius) for record in result.records]


def _paired(ours: Sequence[Results], theirs: Sequence[Results], asked: Sequence[Results]) -> Number | None:
    """The difference of each image's mean gain, if the images are the same ones, and so is what was asked of them.

    `asked` are the runs that ours come from.
    """
    if any(one.indices != ours[0].indices or other_data(one, ours[0]) for one in (*ours, *theirs)):
        return None
    if len({decided_radii(one) for one in (*asked, *theirs)}) > 1:
        return None
    a, b = (_by_index(some) for some in (ours, theirs))
    return Number.of([a[index] - b[index] for index in a])


def _by_index(results: Sequence[Results]) -> dict[int, float]:
    some = [dict(zip((r.index for r in one.records), gains(one.records), strict=True)) for one in results]
    return {index: math.fsum(one[index] for one in some) / len(some) for index in some[0]}


def _training(row: Row, out: Path) -> float | None:
    """Seconds of all members and of what is trained before them, from their logs."""
    total = 0.0
    for member in (one for known in row.members for one in (*known.first, known.start, known) if one is not None):
        log = member.path(out).parent / "log.jsonl"
        if member.recipe is None or not log.exists():
            return None
        total += sum(float(json.loads(line)["seconds"]) for line in log.read_text().splitlines())
    return total / len(row.classifiers)


def _size(row: Row, out: Path) -> tuple[int | None, int | None]:
    """Parameters and FLOPs of what answers: an ensemble, or one network of the row."""
    parameters = flops = 0
    for member in (one for known in row.classifiers[0][0] for one in (*known.first, known)):
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
