"""Mean and standard deviation over seeds: what a method does, beside what one training of it did."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from smoothcert.analysis.measures import Share, asked_shares, average_certified_radius
from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError

# What may differ between two trainings of one method: the seeds, the weights they led to, where these lie, what a
# backend made of them, versions, how often members of an ensemble were asked, and which memory answered how often.
WEIGHTS = ("seed", "fingerprint", "files", "digest", "agreement")
VARYING = (*WEIGHTS, "version", "torch", "cost", "memory", "note")


@dataclass(frozen=True)
class MeanAndDeviation:
    """Mean and sample standard deviation (n - 1) of one number over several runs."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float | Fraction]) -> MeanAndDeviation:
        """Of at least two values; one value has no spread. Exact until the end: a mean that is 75% prints as 75%."""
        if len(values) < 2:
            raise InputError(f"a spread needs at least two values, got {len(values)}")
        exact = [Fraction(value) for value in values]
        return cls(float(sum(exact) / len(exact)), float(statistics.stdev(exact)))


@dataclass(frozen=True)
class Average:
    """Runs of one method: AVG of the papers' tables."""

    names: tuple[str, ...]
    acr: MeanAndDeviation
    accuracy: tuple[MeanAndDeviation | None, ...]  # one per radius; None: not asked in every run

    @property
    def title(self) -> str:
        """Of how many, and what their names have in common."""
        common = _common_start(self.names).rstrip("-_/. ")
        return f"mean of {len(self.names)}: {common}*" if common else f"mean of {', '.join(self.names)}"

    def to_json(self, radii: Sequence[float]) -> dict[str, Any]:
        """All of it, each accuracy beside its radius."""
        pairs = zip(radii, self.accuracy, strict=True)
        unknown = {"mean": None, "deviation": None}
        return asdict(self) | {
            "names": list(self.names),
            "accuracy": [{"radius": r, **(unknown if at is None else asdict(at))} for r, at in pairs],
        }


def average(results: Sequence[Results], radii: Sequence[float]) -> Average:
    """Mean and standard deviation of ACR and certified accuracy over results, e.g. of several seeds."""
    shares = [asked_shares(result.records, radii) for result in results]
    return Average(
        tuple(result.name for result in results),
        MeanAndDeviation.of([average_certified_radius(result.records) for result in results]),
        tuple(_of_shares(column) for column in zip(*shares, strict=True)),
    )


def _of_shares(shares: Sequence[Share | None]) -> MeanAndDeviation | None:
    known = [Fraction(share.count, share.total) for share in shares if share is not None]
    return MeanAndDeviation.of(known) if len(known) == len(shares) else None


def by_method(results: Sequence[Results]) -> list[list[Results]]:
    """Groups of runs whose configurations differ in nothing but seeds and weights, in the order given.

    A public log has no configuration, so it is a group of its own; so are runs of different inputs.
    """
    groups: dict[str, list[Results]] = {}
    for number, result in enumerate(results):
        known = result.settings.procedure is not None
        key = json.dumps(
            [_without_seeds(result.settings.to_json()), sorted(result.indices)], sort_keys=True, default=str
        )
        groups.setdefault(key if known else f"log {number}", []).append(result)
    return list(groups.values())


def averages(results: Sequence[Results], radii: Sequence[float]) -> tuple[Average, ...]:
    """One average per method that has several runs; refused if none has."""
    several = [group for group in by_method(results) if len(group) > 1]
    if not several:
        raise InputError(
            "no two runs are of the same method: to be averaged they must cover the same inputs and differ in nothing "
            "but their seed and model; give more runs, or leave --seeds out"
        )
    return tuple(average(group, radii) for group in several)


def _without_seeds(value: Any) -> Any:
    if isinstance(value, Mapping):
        # A data set keeps its fingerprint: other data are no other seed.
        return {k: v if k == "data" else _without_seeds(v) for k, v in value.items() if k not in VARYING}
    if isinstance(value, list):
        return [_without_seeds(item) for item in value]
    return value


def _common_start(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]
