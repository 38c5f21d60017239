"""How sure a classifier is of each input: the distribution of p_A (Sun et al. 2025).

The ACR grows without end on inputs that are easy already, and so hides what happens to hard ones. The lower bound of
p_A over all inputs, 0 where the answer is wrong or missing, shows both; so does the ACR of the harder half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.measures import Share, gains, refuse_none, right
from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special
from smoothcert.runs import Record

LEVELS = (0.5, 0.75, 0.9, 0.99)


@dataclass(frozen=True)
class Hardness:
    """What a result does on its hard inputs, beside the ACR.

    Args:
        below: how many inputs have a lower bound of p_A strictly below each of `LEVELS`; below 1/2 is what is not
            certified at all.
        median: of the lower bound over inputs; of two in the middle the smaller one.
        hard_half: the ACR of the half of the inputs with the smallest radii, wrong ones counting 0.
    """

    below: tuple[Share, ...]
    median: float
    hard_half: float

    def to_json(self) -> dict[str, Any]:
        """Counts, shares and intervals in full precision, each beside its level."""
        levels = zip(LEVELS, self.below, strict=True)
        return {
            "below": [{"p": level, **share.to_json()} for level, share in levels],
            "median": self.median,
            "hard_half_acr": self.hard_half,
        }


def hardness(result: Results) -> Hardness | None:
    """The measures of a result; None where nothing is known of p_A."""
    if not knows_p(result):
        return None
    bounds = lower_bounds(result)
    radii = sorted(gains(result.records))
    half = radii[: math.ceil(len(radii) / 2)]
    return Hardness(share_below(result), float(bounds[(len(bounds) - 1) // 2]), math.fsum(half) / len(half))


def knows_p(result: Results) -> bool:
    """Whether every input has a lower bound of p_A.

    Those of `Fixed` and `Budgeted` have one. Procedures that decide given radii bound p_A only as far as these need. A
    public log keeps none, but where its sigma is known its radii tell it. An oracle mixes classifiers.
    """
    if result.settings.oracle:
        return False
    claims = [record.claim for record in result.records]
    if all(claim is None for claim in claims):
        return result.settings.log_sigma is not None
    return all(claim is not None and not claim.decisions for claim in claims)


def lower_bounds(result: Results) -> npt.NDArray[np.float64]:
    """The lower bound of p_A of each input, 0 where the answer is wrong or missing, ascending: (N,)."""
    refuse_none(result.records)
    if not knows_p(result):
        raise InputError(
            f"{result.name} keeps no bound of p_A; give runs of fixed or budgeted, or public logs with --log-sigma"
        )
    return np.sort(np.array([_bound(record, result.settings.log_sigma) for record in result.records], dtype=np.float64))


def _bound(record: Record, log_sigma: float | None) -> float:
    if not right(record):
        return 0.0
    claim = record.claim
    if claim is None:
        assert log_sigma is not None
        return float(special.ndtr(record.radius / log_sigma))  # Cohen's radius is sigma Phi^-1 of it
    # Where a memory answers another class than the draws did, their bound is not of the answer.
    drawn = record.prediction if claim.from_draws is None else claim.from_draws.label
    return claim.p_lower if drawn == record.prediction else 0.0


def share_below(result: Results, levels: Sequence[float] = LEVELS) -> tuple[Share, ...]:
    """The empirical CDF of the lower bound, strictly below each level: how many inputs are harder than that."""
    bounds = lower_bounds(result)
    return tuple(Share(int(np.searchsorted(bounds, level, side="left")), len(bounds)) for level in levels)
