"""What sets a run apart from one that looks the same: the same classifier on the same inputs, by another procedure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smoothcert.analysis.comparison import decided_radii
from smoothcert.analysis.measures import mean_draws
from smoothcert.analysis.results import Results, other_data
from smoothcert.procedures import ABSTAIN
from smoothcert.runs import Record
from smoothcert.stats.rounding import down

SAME = 1.05  # factors of draws below are as many


def beside(result: Results, earlier: Sequence[Results]) -> str:
    """One sentence about the first earlier run of the same classifier, noise and inputs, or "" where there is none."""
    other = next((one for one in earlier if _same_task(one, result)), None)
    if other is None:
        return ""
    asked = [radii for radii in map(decided_radii, (result, other)) if radii]
    radii = sorted(frozenset.intersection(*asked)) if asked else [0.0]
    if not radii:
        return ""
    pairs = list(zip(_by_index(result), _by_index(other), strict=True))
    differ = sum(any(_answer(a, r) != _answer(b, r) for r in radii) for a, b in pairs)
    at = f" at radius {_listed(radii)}" if asked else ""
    if not differ:
        said = f"The same answers as {other.name}{at}"
    else:
        said = f"{differ} of {len(pairs)} answers differ from {other.name}{at}"
    return f"{said}{_cost(mean_draws(result.records), mean_draws(other.records))}."


def procedure_words(procedure: Any) -> str:
    """A described procedure for the facts of a card: "fixed, n = 10,000", "sequential at radius 0.5 and 1"."""
    if not isinstance(procedure, Mapping) or not isinstance(procedure.get("name"), str):
        return ""
    name, radius, n = str(procedure["name"]), procedure.get("radius"), procedure.get("n")
    if radius is not None:
        return f"{name} at radius {_listed(radius if isinstance(radius, list | tuple) else [radius])}"
    return f"{name}, n = {n:,}" if type(n) is int else name


def _same_task(a: Results, b: Results) -> bool:
    known = a.settings.classifier is not None and a.settings.noise is not None
    same = (a.settings.classifier, a.settings.noise) == (b.settings.classifier, b.settings.noise)
    return known and same and a.indices == b.indices and not other_data(a, b)


def _by_index(result: Results) -> list[Record]:
    return sorted(result.records, key=lambda record: record.index)


def _answer(record: Record, radius: float) -> int:
    return record.prediction if record.radius >= radius else ABSTAIN


def _cost(draws: float | None, before: float | None) -> str:
    if not draws or not before:
        return ""
    factor = max(before / draws, draws / before)
    if factor < SAME:
        return ", with as many draws"
    return f", with {down(factor, 0 if factor >= 10 else 1)} times {'fewer' if draws < before else 'more'} draws"


def _listed(radii: Sequence[Any]) -> str:
    *most, last = (str(radius).removesuffix(".0") for radius in radii)
    return f"{', '.join(most)} and {last}" if most else last
