"""What a set of records amounts to: certified accuracy, average certified radius, cost, each with its uncertainty.

Every measure is over *all* the records it is given, abstentions included. Intervals speak about the inputs: they say
where the measure would lie on all inputs like these, taking the records for a random sample. The error probability
alpha of the certificates themselves comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError
from smoothcert.runs import Record
from smoothcert.stats import lower_bound, upper_bound

LEVEL = 0.95
RESAMPLES = 2000
# Resampled inputs held in memory at once by the bootstrap: 16 MB.
BLOCK = 1 << 22


@dataclass(frozen=True)
class Interval:
    """A confidence interval, ends included."""

    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """`count` of `total` inputs: a share that remembers of how many."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """The share as a number."""
        return self.count / self.total

    @property
    def interval(self) -> Interval:
        """The 95% Clopper-Pearson interval."""
        return share_interval(self.count, self.total)

    def to_json(self) -> dict[str, Any]:
        """Counts, share and interval in full precision."""
        interval = self.interval
        return {
            "count": self.count,
            "total": self.total,
            "value": self.value,
            "low": interval.low,
            "high": interval.high,
        }


def share_json(share: Share | None, radius: float) -> dict[str, Any]:
    """A share beside its radius; nulls where the radius was not asked."""
    unknown = dict.fromkeys(("count", "total", "value", "low", "high"))
    return {"radius": radius, **(unknown if share is None else share.to_json())}


def certified_accuracy(records: Sequence[Record], radii: Sequence[float]) -> npt.NDArray[np.float64]:
    """Share of all records with the correct label and radius >= r, for each r (Cohen et al. 2019, section 4).

    Abstentions count as wrong, so at r = 0 it is the share of correct answers. It never increases with r.
    """
    return np.array([share.value for share in certified_shares(records, radii)], dtype=np.float64)  # (len(radii),)


def certified_shares(records: Sequence[Record], radii: Sequence[float]) -> tuple[Share, ...]:
    """Certified accuracy as counts, for exact printing and intervals."""
    for r in radii:
        if not 0 <= r < math.inf:
            raise InputError(f"radii must be non-negative finite numbers, got {r}")
    refuse_none(records)
    reached = np.sort([record.radius for record in records if right(record)])
    below = np.searchsorted(reached, np.asarray(radii, dtype=np.float64), side="left")  # radius == r still counts
    return tuple(Share(len(reached) - int(k), len(records)) for k in below)


def asked_up_to(records: Sequence[Record]) -> float:
    """The largest radius that anything is known about; infinite where procedures looked for the largest radius.

    A procedure that decides given radii says nothing beyond the largest of them: certified accuracy there is not 0, it
    was not asked.
    """
    largest = 0.0
    for record in records:
        if record.certificate is None or not record.certificate.decisions:
            return math.inf
        largest = max(largest, record.radius, *(decision.radius for decision in record.certificate.decisions))
    return largest


def asked_shares(records: Sequence[Record], radii: Sequence[float]) -> tuple[Share | None, ...]:
    """`certified_shares`, and None at radii that were not asked."""
    limit = asked_up_to(records)
    shares = zip(radii, certified_shares(records, radii), strict=True)
    return tuple(share if radius <= limit else None for radius, share in shares)


def average_certified_radius(records: Sequence[Record]) -> float:
    """ACR: the mean of radius * correct over all records (Zhai et al. 2020, section 5.1).

    It equals the area under the certified-accuracy curve. Radii are summed without rounding error, so the order of the
    records does not matter.
    """
    return math.fsum(gains(records)) / len(records)


def acr_interval(records: Sequence[Record], *, seed: int, resamples: int = RESAMPLES) -> Interval:
    """95% percentile bootstrap interval of the ACR (Efron 1979): resample inputs, take the quantiles of the means.

    A function of the radii and the seed alone: the order of the records does not change it. Unlike
    Clopper-Pearson it is approximate: its coverage tends to 95% with many inputs, and where all inputs gain the
    same radius it has no width.
    """
    return mean_interval(gains(records), seed=seed, resamples=resamples)


def mean_interval(values: Sequence[float], *, seed: int, resamples: int = RESAMPLES) -> Interval:
    """95% percentile bootstrap interval of the mean of `values`, one per input; their order does not change it."""
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, got {resamples}")
    if not len(values):
        raise InputError("values must hold at least one number: the mean of nothing is not defined")
    ordered = np.sort(np.asarray(values, dtype=np.float64))  # (n,)
    if ordered[0] == ordered[-1]:  # the mean of any resample; draws of `Fixed` are such
        return Interval(float(ordered[0]), float(ordered[0]))
    rng = np.random.default_rng(seed)
    n, means = len(ordered), []
    rows = max(1, BLOCK // n)
    for done in range(0, resamples, rows):
        chosen = rng.integers(n, size=(min(rows, resamples - done), n), dtype=np.int32)
        means.append(ordered[chosen].mean(axis=1))  # (rows,)
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def share_interval(count: int, total: int) -> Interval:
    """Two-sided Clopper-Pearson interval of a share: covers the truth with probability at least 95%, any n."""
    tail = (1 - LEVEL) / 2
    return Interval(lower_bound(count, total, tail), upper_bound(count, total, tail))


def abstentions(records: Sequence[Record]) -> Share:
    """How many inputs got no answer."""
    refuse_none(records)
    return Share(sum(record.abstained for record in records), len(records))


def abstention_rate(records: Sequence[Record]) -> float:
    """Share of all records without an answer."""
    return abstentions(records).value


def mean_draws(records: Sequence[Record]) -> float | None:
    """Draws per input, those that chose the class included; None unless every record knows its draws."""
    return _mean(records, lambda record: record.draws)


def mean_seconds(records: Sequence[Record]) -> float | None:
    """Seconds per input; None unless every record knows its time."""
    return _mean(records, lambda record: record.seconds)


def _mean(records: Sequence[Record], cost: Callable[[Record], float | None]) -> float | None:
    refuse_none(records)
    known = [value for record in records if (value := cost(record)) is not None]
    return math.fsum(known) / len(records) if len(known) == len(records) else None


def gains(records: Sequence[Record]) -> list[float]:
    """What each record adds to the ACR: its radius if the answer is right, else 0."""
    refuse_none(records)
    return [float(record.radius) if right(record) else 0.0 for record in records]


def right(record: Record) -> bool:
    """Answered, and with the true label. Where nobody knows the truth (`Results.unlabelled`), answered."""
    return not record.abstained and (record.correct or not record.labelled)


def refuse_none(records: Sequence[Record]) -> None:
    """Refuse to measure nothing."""
    if not records:
        raise InputError("records must hold at least one record: a measure of nothing is not defined")
