"""Is one run better than another? Paired, input by input: the question every paper asks.

Two runs on the same inputs are not two samples: what is hard for one is hard for the other, so the difference is known
far better than either number. Intervals are of the difference, tests are exact. Both speak about inputs like these,
for these two models; they do not say what other trainings of them would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.measures import (
    LEVEL,
    RESAMPLES,
    Interval,
    Share,
    asked_up_to,
    average_certified_radius,
    certified_shares,
    gains,
    mean_interval,
    right,
)
from smoothcert.analysis.results import Results, on_shared_inputs, subset_warnings
from smoothcert.analysis.summary import usual_radii
from smoothcert.core.errors import InputError
from smoothcert.stats import top_two_p_value
from smoothcert.stats.rounding import down, up

FEWEST = 30  # below, a bootstrap interval is far too short: of one input it has no width at all


@dataclass(frozen=True)
class SignTest:
    """Inputs where only one of the two wins; inputs where both do, or neither, say nothing about who is better."""

    a: int
    b: int
    ties: int

    @property
    def p_value(self) -> float:
        """Exact two-sided sign test of "either is as likely to win" (McNemar 1947, exact form), rounded up."""
        return top_two_p_value(self.a, self.b)

    def to_json(self) -> dict[str, Any]:
        """Counts and p-value."""
        return asdict(self) | {"p_value": self.p_value}


@dataclass(frozen=True)
class AtRadius:
    """Certified accuracy of both at one radius, the difference a - b, and who certifies what the other does not."""

    radius: float
    a: Share
    b: Share
    interval: Interval  # of the difference
    only: SignTest

    @property
    def difference(self) -> float:
        """Certified accuracy of a minus that of b."""
        return (self.a.count - self.b.count) / self.a.total

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "radius": self.radius,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "difference": self.difference,
            "interval": asdict(self.interval),
            "only": self.only.to_json(),
        }


@dataclass(frozen=True)
class Comparison:
    """Run `a` against run `b` on the inputs they share."""

    a: str
    b: str
    inputs: int
    acr_a: float
    acr_b: float
    acr_interval: Interval  # of acr_a - acr_b
    radii: SignTest  # who has the larger correct radius, how often
    accuracy: tuple[AtRadius, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader of the numbers should know
    same_question: bool = True  # both looked for the largest radius, or both decided the same radii

    @property
    def acr_difference(self) -> float:
        """ACR of a minus that of b."""
        return self.acr_a - self.acr_b

    @property
    def sentence(self) -> str:
        """The verdict in words; what the interval does not exclude is not claimed."""
        low, high = self.acr_interval.low, self.acr_interval.high
        between = f"95% interval of the difference {plus(down(low, 4))} to {plus(up(high, 4))}"
        count = f"on {self.inputs} shared inputs"
        if self.inputs < FEWEST:
            return f"{self.a} and {self.b} share {self.inputs} inputs, too few for a verdict: give {FEWEST} or more."
        if not self.same_question:
            return (
                f"{self.a} and {self.b} cannot be compared by their ACR: they were asked about other radii; compare "
                f"certified accuracy at the radii both were asked about ({count})."
            )
        if low > 0 or high < 0:
            better, worse = (self.a, self.b) if low > 0 else (self.b, self.a)
            least = down(low if low > 0 else -high, 4)
            return f"{better} has a larger ACR than {worse} {count}, by at least {least} ({between})."
        return f"{self.a} and {self.b} cannot be told apart by their ACR {count} ({between})."

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in full precision; nothing is rounded."""
        return {
            "a": self.a,
            "b": self.b,
            "inputs": self.inputs,
            "level": LEVEL,
            "acr": {
                "a": self.acr_a,
                "b": self.acr_b,
                "difference": self.acr_difference,
                "interval": asdict(self.acr_interval),
            },
            "same_question": self.same_question,
            "radii": self.radii.to_json(),
            "accuracy": [at.to_json() for at in self.accuracy],
            "sentence": self.sentence,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def compare(
    a: Results, b: Results, radii: Sequence[float] | None = None, *, seed: int = 0, resamples: int = RESAMPLES
) -> Comparison:
    """Compare on the inputs that both cover; refuse other data, other labels and other norms.

    Differences are a - b, each with a 95% percentile bootstrap interval that resamples inputs (pairs stay together);
    where no input differs it has no width. Radii that one of the two was not asked about are left out, with a warning.
    p-values are exact; they are not corrected for looking at several radii.
    """
    pair = on_shared_inputs([a, b])
    if doubts := subset_warnings(pair):
        raise InputError(f"there is nothing to compare: {doubts[0]}")
    _refuse_other_inputs(pair)
    gained = np.array([gains(result.records) for result in pair])  # (2, n), column i is one input
    chosen = usual_radii(pair) if radii is None else tuple(float(r) for r in radii)
    limit = min(asked_up_to(result.records) for result in pair)
    return Comparison(
        a=a.name,
        b=b.name,
        inputs=len(pair[0].records),
        acr_a=average_certified_radius(pair[0].records),
        acr_b=average_certified_radius(pair[1].records),
        acr_interval=mean_interval((gained[0] - gained[1]).tolist(), seed=seed, resamples=resamples),
        radii=_sign_test(gained[0] > gained[1], gained[1] > gained[0]),
        accuracy=tuple(_at(radius, pair, seed, resamples) for radius in chosen if radius <= limit),
        warnings=(*_warnings(a, b, len(pair[0].records)), *_not_asked(pair, chosen)),
        notes=_notes(a, b),
        same_question=len({decided_radii(result) for result in pair}) == 1,
    )


def _refuse_other_inputs(pair: Sequence[Results]) -> None:
    """Records name inputs by content; data that are read lazily only by their files."""
    for a, b in zip(*(result.records for result in pair), strict=True):
        ids = [record.certificate.input_id for record in (a, b) if record.certificate is not None]
        if len(set(filter(None, ids))) > 1:
            raise InputError(
                f"there is nothing to compare: input {a.index} of {pair[0].name} is another one than input {b.index} "
                f"of {pair[1].name}; certify the same data"
            )


def plus(text: str) -> str:
    """A printed number with its sign; zero has none."""
    if not float(text):
        return text.lstrip("-")
    return text if text.startswith("-") else f"+{text}"


def _at(radius: float, pair: Sequence[Results], seed: int, resamples: int) -> AtRadius:
    a, b = (certified_shares(result.records, [radius])[0] for result in pair)
    reached = np.array([[right(r) and r.radius >= radius for r in result.records] for result in pair])  # (2, n)
    counts = _sign_test(reached[0] & ~reached[1], reached[1] & ~reached[0])
    # Resampling inputs with values +1, -1 and 0 is drawing their counts: the same law, without n draws each.
    shares = [counts.a / a.total, counts.b / a.total, counts.ties / a.total]
    drawn = np.random.default_rng(seed).multinomial(a.total, shares, size=resamples)  # (resamples, 3)
    low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / a.total, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return AtRadius(radius, a, b, Interval(float(low), float(high)), counts)


def _sign_test(a: npt.NDArray[np.bool_], b: npt.NDArray[np.bool_]) -> SignTest:
    wins, losses = int(np.count_nonzero(a)), int(np.count_nonzero(b))
    return SignTest(wins, losses, len(a) - wins - losses)


def _warnings(a: Results, b: Results, common: int) -> tuple[str, ...]:
    named = [f"{result.name}: {warning}" for result in (a, b) for warning in result.warnings]
    for result in (a, b):
        if len(result.records) > common:
            named.append(f"{result.name}: only the {common} of its {len(result.records)} inputs that both cover count")
    return tuple(named)


def _not_asked(pair: Sequence[Results], radii: Sequence[float]) -> list[str]:
    limits = {result.name: asked_up_to(result.records) for result in pair}
    beyond = {name: [str(r).removesuffix(".0") for r in radii if r > limit] for name, limit in limits.items()}
    return [
        f"{name}: it was not asked about radii beyond {limits[name]:g}, so {', '.join(left)} cannot be compared"
        for name, left in beyond.items()
        if left
    ]


def decided_radii(result: Results) -> frozenset[float]:
    """The radii that the run was asked to decide; none where the largest was looked for."""
    certificates = [record.certificate for record in result.records if record.certificate is not None]
    return frozenset(decision.radius for certificate in certificates for decision in certificate.decisions)


def _notes(a: Results, b: Results) -> tuple[str, ...]:
    if a.note is not None and a.note == b.note:
        return (a.note,)
    return tuple(f"{result.name}: {result.note}" for result in (a, b) if result.note is not None)
