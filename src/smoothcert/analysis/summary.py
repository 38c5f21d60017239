"""The numbers of a table, before any formatting: one place computes, the renderers only print."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from smoothcert.analysis import measures
from smoothcert.analysis.draw_savings import DrawSavings, draw_savings
from smoothcert.analysis.envelope import UpperEnvelope, upper_envelope
from smoothcert.analysis.hardness import Hardness, hardness
from smoothcert.analysis.logs import LARGEST
from smoothcert.analysis.measures import Interval, Share
from smoothcert.analysis.results import Results, subset_warnings
from smoothcert.analysis.seeds import Average, averages
from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.noise.base import noise_kind

MOST_RADII = 8
USUAL_STEP = Fraction(1, 4)  # the papers' tables: 0, 0.25, 0.5, ...


@dataclass(frozen=True)
class Row:
    """One result: what it is, what it achieves, what it cost."""

    name: str
    noise: str | None
    norm: str | None
    inputs: int
    planned: int | None
    subset: str
    acr: float
    acr_interval: Interval
    accuracy: tuple[Share | None, ...]  # one per radius of the summary; None: it was not asked
    abstentions: Share
    mean_draws: float | None
    draws_interval: Interval | None  # of the mean, over inputs like these; None as the mean is
    mean_seconds: float | None
    seconds_interval: Interval | None
    savings: DrawSavings | None  # None: nothing to compare with
    settings: Settings
    hardness: Hardness | None = None  # what the ACR hides; None: nothing is known of p_A
    unlabelled: bool = False  # nobody knows the truth: accuracies are of certified inputs, right or not

    @property
    def total_draws(self) -> int | None:
        """Draws of all inputs together."""
        return None if self.mean_draws is None else round(self.mean_draws * self.inputs)

    @property
    def total_seconds(self) -> float | None:
        """Time of all inputs together."""
        return None if self.mean_seconds is None else self.mean_seconds * self.inputs

    @property
    def note(self) -> str | None:
        """What a reader of the numbers should know."""
        return self.settings.note

    def to_json(self, radii: Sequence[float]) -> dict[str, Any]:
        """All fields in full precision; each accuracy beside its radius."""
        out = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return out | {
            "acr_interval": dataclasses.asdict(self.acr_interval),
            "draws_interval": None if self.draws_interval is None else dataclasses.asdict(self.draws_interval),
            "seconds_interval": None if self.seconds_interval is None else dataclasses.asdict(self.seconds_interval),
            "accuracy": [measures.share_json(s, r) for r, s in zip(radii, self.accuracy, strict=True)],
            "abstentions": self.abstentions.to_json(),
            "savings": None if self.savings is None else self.savings.to_json(),
            "hardness": None if self.hardness is None else self.hardness.to_json(),
            "total_draws": self.total_draws,
            "total_seconds": self.total_seconds,
            "settings": self.settings.to_json(),
        }


@dataclass(frozen=True)
class Summary:
    """A table: the radii of its columns, one row per result, and what keeps the rows from being taken at face value."""

    radii: tuple[float, ...]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]
    averages: tuple[Average, ...] = ()  # over seeds, where they were asked for
    envelope: UpperEnvelope | None = None  # the largest of each number, where it was asked for

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the rows, each once, naming whom it concerns where that is not everyone."""
        names: dict[str, list[str]] = {}
        for row in self.rows:
            if row.note is not None:
                names.setdefault(row.note, []).append(row.name)
        return tuple(note if len(who) == len(self.rows) else f"{', '.join(who)}: {note}" for note, who in names.items())

    @property
    def costs(self) -> tuple[str, ...]:
        """What each row saved against its baseline, and what an ensemble asked of its members, in a line each."""
        said = ((row.name, row.savings, row.settings.cost) for row in self.rows)
        return tuple(f"{name}: {words}" for name, *both in said for words in both if words is not None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in full precision; nothing is rounded."""
        return {
            "radii": list(self.radii),
            "level": measures.LEVEL,
            "rows": [row.to_json(self.radii) for row in self.rows],
            "averages": [average.to_json(self.radii) for average in self.averages],
            "envelope": None if self.envelope is None else self.envelope.to_json(self.radii),
            "warnings": list(self.warnings),
        }


def summarise(
    results: Sequence[Results],
    radii: Sequence[float] | None = None,
    *,
    seeds: bool = False,
    envelope: bool = False,
    against: Results | None = None,
    seed: int = 0,
) -> Summary:
    """Measure every result at the same radii (chosen by `usual_radii` if none are given).

    With `seeds`, methods of which there are several runs are averaged too; with `envelope`, the `upper_envelope` of all
    but oracles is there. `against` is the baseline of what is saved. `seed` is that of the bootstrap of the ACR.
    Warnings of the results carry their name; those about the comparison follow.
    """
    if not results:
        raise InputError("results must hold at least one run or log")
    chosen = usual_radii(results) if radii is None else tuple(float(r) for r in radii)
    named = [f"{result.name}: {warning}" for result in results for warning in result.warnings]
    members = [result for result in results if not result.settings.oracle]
    return Summary(
        chosen,
        tuple(_row(result, chosen, seed, results, against) for result in results),
        (*named, *subset_warnings(results)),
        averages(results, chosen) if seeds else (),
        upper_envelope(members, chosen) if envelope else None,
    )


def usual_radii(results: Sequence[Results], most: int = MOST_RADII) -> tuple[float, ...]:
    """0, 0.25, 0.5, ... up to the largest radius of a correct answer; a wider step if that would be too many columns.

    Where all radii lie below 0.5 the step is narrower; where all are whole numbers (l0) it is a whole number. Radii
    that a procedure was asked to decide have columns of their own; where every result is of that kind, they alone.
    """
    asked = [_asked(result.settings.procedure) for result in results]
    decided = set().union(*asked)
    if decided:
        rest = [result for result, radii in zip(results, asked, strict=True) if not radii]
        more = len(decided.difference(usual_radii(rest, most)))
        return tuple(sorted({*decided, *usual_radii(rest, max(2, most - more))}))
    reached = [r.radius for result in results for r in result.records if measures.right(r)]
    largest = max(reached, default=0.0)
    if largest <= 0:
        return (0.0,)
    whole = all(radius == math.floor(radius) for radius in reached)
    finest = Fraction(1) if whole else USUAL_STEP if largest >= 2 * USUAL_STEP else Fraction(0)
    for step in _round_numbers(largest):
        if step >= finest and not (whole and step.denominator > 1):
            grid = sorted({r for i in range(most + 1) if (r := float(i * step)) <= largest})
            if len(grid) <= most:
                return tuple(grid)
    raise AssertionError("unreachable: the steps grow without end")


def _asked(procedure: Mapping[str, Any] | None) -> set[float]:
    """The radii that a described procedure decides; none for those that look for the largest."""
    given = None if procedure is None else procedure.get("radius")
    several = given if isinstance(given, list | tuple) else [given]
    return {float(r) for r in several if isinstance(r, int | float) and 0 < r <= LARGEST}


def _round_numbers(size: float) -> Iterator[Fraction]:
    """1, 2, 2.5, 5, 10, ... and their decimal fractions, ascending from below a hundredth of `size`."""
    power = math.floor(math.log10(size)) - 2
    while True:
        for digit in (Fraction(1), Fraction(2), Fraction(5, 2), Fraction(5)):
            yield digit * Fraction(10) ** power
        power += 1


def _row(result: Results, radii: Sequence[float], seed: int, others: Sequence[Results], against: Results | None) -> Row:
    return Row(
        name=result.name,
        noise=_noise(result.settings),
        norm=result.norm,
        inputs=len(result.records),
        planned=result.planned,
        subset=result.subset,
        acr=measures.average_certified_radius(result.records),
        acr_interval=measures.acr_interval(result.records, seed=seed),
        accuracy=measures.asked_shares(result.records, radii),
        abstentions=measures.abstentions(result.records),
        mean_draws=measures.mean_draws(result.records),
        draws_interval=_cost_interval([record.draws for record in result.records], seed),
        mean_seconds=measures.mean_seconds(result.records),
        seconds_interval=_cost_interval([record.seconds for record in result.records], seed),
        savings=None if result.settings.oracle else draw_savings(result, others, against),
        settings=result.settings,
        hardness=hardness(result),
        unlabelled=result.unlabelled,
    )


def _cost_interval(values: Sequence[float | None], seed: int) -> Interval | None:
    """Of the mean cost per input; None where not every input has one."""
    known = [value for value in values if value is not None]
    return measures.mean_interval(known, seed=seed) if len(known) == len(values) else None


def _noise(settings: Settings) -> str | None:
    """The noise in words, from its description of a run: "gaussian sigma=0.25", "gaussian sigma per input"."""
    noise = settings.noise
    if noise is None:
        return None
    kind = noise_kind(noise)
    key = "" if kind is None else kind.strength_name
    own = "routed" if settings.routing is not None else "per input" if settings.sigma_search is not None else ""
    strength = "" if key not in noise else f" {key} {own}" if own else f" {key}={noise[key]}"
    return f"{noise.get('name', '')}{strength}".strip() or None
