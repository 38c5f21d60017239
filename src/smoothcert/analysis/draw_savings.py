"""What a run saved: draws and time against a baseline, and in which stage or look inputs were decided.

SampleRF, TimeRF, ASC_j and ASA_j as in Horvath et al. 2022 (tables 3 to 5): the factors by which draws (n0 counted in
both) and time are reduced, and the shares of inputs that step j certified and gave up on. The baseline is the run that
the user names: for K-consensus the papers take the full ensemble. Without one it is `Fixed` with the n that the
procedure matches, and its time that of a run of `Fixed` with the same classifier on the same inputs, if one is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smoothcert.analysis import measures
from smoothcert.analysis.results import Results, other_data
from smoothcert.core.errors import InputError
from smoothcert.procedures import Evaluate, Fixed
from smoothcert.stats.rounding import down

FIXED = "fixed n"
NO_SAVINGS = (Fixed.name, Evaluate.name)  # what the latter leaves out is for the labels, not for its statistics
MOST_STEPS = 6  # in a line of text; the rest is one sum


@dataclass(frozen=True)
class StepShares:
    """One stage or look: the shares of all inputs that it certified (ASC_j) and gave up on (ASA_j)."""

    number: int
    certified: float
    given_up: float


@dataclass(frozen=True)
class DrawSavings:
    """Against a baseline: what it is called, its draws per input, and how many times less was drawn and waited."""

    against: str
    baseline_draws: float | None  # None: not known
    mean_draws: float | None
    time_rf: float | None  # None: there is no time to compare with
    time_against: str | None  # the run whose time it is
    steps: tuple[StepShares, ...]  # only those that decided something

    @property
    def sample_rf(self) -> float | None:
        """How many times fewer draws."""
        return self.baseline_draws / self.mean_draws if self.baseline_draws and self.mean_draws else None

    def __str__(self) -> str:
        parts = []
        if self.sample_rf is not None:
            draws = f"{self.mean_draws:,.0f} draws per input for {self.baseline_draws:,.0f} of {self.against}"
            parts.append(f"SampleRF {down(self.sample_rf, 1)} ({draws})")
        if self.time_rf is not None:
            parts.append(f"TimeRF {down(self.time_rf, 1)} (against {self.time_against})")
        text = ", ".join(parts)
        if self.steps:
            shown = [f"{s.number}: {100 * s.certified:.1f}+{100 * s.given_up:.1f}" for s in self.steps[:MOST_STEPS]]
            later = self.steps[MOST_STEPS:]
            if later:
                sums = [100 * sum(share) for share in zip(*((s.certified, s.given_up) for s in later), strict=True)]
                shown.append(f"later: {sums[0]:.1f}+{sums[1]:.1f}")
            text += f"; % certified + given up at step {', '.join(shown)}"
        return text

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "sample_rf": self.sample_rf}


def draw_savings(result: Results, others: Sequence[Results], against: Results | None = None) -> DrawSavings | None:
    """What `result` saved, if anything can be said; `others` may hold a run of `Fixed` to compare times with.

    `against` is the baseline, of the same inputs and data; a result saves nothing against itself.
    """
    mean_draws = measures.mean_draws(result.records)
    if against is not None:
        check_baseline(result, against)
        if result.records == against.records:
            return None
        time_rf, draws = _factor(against, result), measures.mean_draws(against.records)
        return DrawSavings(against.name, draws, mean_draws, time_rf, against.name if time_rf else None, _steps(result))
    fixed_draws = result.settings.fixed_draws
    if fixed_draws is None or not mean_draws or result.settings.method in NO_SAVINGS:
        return None
    timed = next((other for other in others if other.settings.method == "fixed" and _same_work(other, result)), None)
    time_rf = None if timed is None else _factor(timed, result)
    named = None if timed is None or time_rf is None else timed.name
    return DrawSavings(FIXED, float(fixed_draws), mean_draws, time_rf, named, _steps(result))


def check_baseline(result: Results, against: Results) -> None:
    """Refuse a baseline of other inputs or data, or one that keeps neither draws nor times."""
    if against.indices != result.indices or other_data(result, against):
        raise InputError(
            f"{result.name} cannot be measured against {against.name}: they are not of the same inputs; give --shared, "
            "or a baseline that certified the same ones"
        )
    if measures.mean_draws(against.records) is None and measures.mean_seconds(against.records) is None:
        raise InputError(f"{against.name} records neither draws nor times to measure against; give another baseline")


def _factor(baseline: Results, result: Results) -> float | None:
    """How many times faster per input, where both know their time."""
    before, now = (measures.mean_seconds(r.records) for r in (baseline, result))
    return before / now if before is not None and now else None


def _same_work(a: Results, b: Results) -> bool:
    """The same inputs for the same classifier, run in the same way."""
    same_classifier = a.settings.classifier == b.settings.classifier
    return same_classifier and a.indices == b.indices and not other_data(a, b)


def _steps(result: Results) -> tuple[StepShares, ...]:
    certified, given_up = Counter[int](), Counter[int]()
    for record in result.records:
        if record.claim is not None and record.claim.decisions:
            last = max(decision.step for decision in record.claim.decisions)
            (given_up if record.abstained else certified)[last] += 1
    total = len(result.records)
    return tuple(StepShares(j, certified[j] / total, given_up[j] / total) for j in sorted(certified | given_up))
