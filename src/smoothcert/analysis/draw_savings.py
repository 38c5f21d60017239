"""What a procedure saved: draws and time against fixed n, and in which stage or look inputs were decided.

SampleRF, TimeRF, ASC_j and ASA_j as in Horvath et al. 2022 (tables 3 to 5): the factors by which draws (n0 counted in
both) and time are reduced, and the shares of inputs that step j certified and gave up on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smoothcert.analysis import measures
from smoothcert.analysis.results import Results, other_data

MOST_STEPS = 6  # in a line of text; the rest is one sum


@dataclass(frozen=True)
class Step:
    """One stage or look: the shares of all inputs that it certified (ASC_j) and gave up on (ASA_j)."""

    number: int
    certified: float
    given_up: float


@dataclass(frozen=True)
class Savings:
    """Against `Fixed` with the n that the procedure matches."""

    fixed_draws: int
    mean_draws: float
    time_rf: float | None  # None: no run of `Fixed` with this classifier on these inputs is there to compare with
    steps: tuple[Step, ...]  # only those that decided something

    @property
    def sample_rf(self) -> float:
        """How many times fewer draws."""
        return self.fixed_draws / self.mean_draws

    def __str__(self) -> str:
        text = f"SampleRF {self.sample_rf:.1f} ({self.mean_draws:,.0f} draws per input for {self.fixed_draws:,})"
        if self.time_rf is not None:
            text += f", TimeRF {self.time_rf:.1f}"
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


def savings(result: Results, others: Sequence[Results]) -> Savings | None:
    """What `result` saved, if it saved anything; `others` may hold the run of `Fixed` to compare times with."""
    fixed_draws, mean_draws = result.settings.fixed_draws, measures.mean_draws(result.records)
    if fixed_draws is None or not mean_draws or result.settings.method == "fixed":
        return None
    return Savings(fixed_draws, mean_draws, _time_rf(result, others), _steps(result))


def _time_rf(result: Results, others: Sequence[Results]) -> float | None:
    seconds = measures.mean_seconds(result.records)
    for other in others:
        if other.settings.method == "fixed" and _same_work(other, result) and seconds:
            reference = measures.mean_seconds(other.records)
            return None if reference is None else reference / seconds
    return None


def _same_work(a: Results, b: Results) -> bool:
    """The same inputs for the same classifier, run in the same way."""
    same_classifier = a.settings.classifier == b.settings.classifier
    return same_classifier and a.indices == b.indices and not other_data(a, b)


def _steps(result: Results) -> tuple[Step, ...]:
    certified, given_up = Counter[int](), Counter[int]()
    for record in result.records:
        if record.claim is not None and record.claim.decisions:
            last = max(decision.step for decision in record.claim.decisions)
            (given_up if record.abstained else certified)[last] += 1
    total = len(result.records)
    return tuple(Step(j, certified[j] / total, given_up[j] / total) for j in sorted(certified | given_up))
