"""The gamma-robustness index and its instances, and measures per class (Liu, Feng, Wang & Qin 2021, "SWEEN")."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smoothcert.analysis.measures import (
    Interval,
    Share,
    acr_interval,
    average_certified_radius,
    certified_shares,
    refuse_none,
    right,
)
from smoothcert.core.errors import InputError
from smoothcert.core.lazy import special
from smoothcert.runs import Record

Gamma = Callable[[float], float]


def robustness_index(records: Sequence[Record], gamma: Gamma) -> float:
    """I_gamma: the mean of gamma(certified radius) over all records (Liu et al. 2021, definition 1).

    `gamma` maps radii to non-negative numbers. An answer that is wrong or missing counts 0 whatever `gamma` is. The
    paper gives it gamma(0), which is the same for the gammas of its proposition 1 but one: with 1{r >= R} at R = 0
    the index would be 1 for every classifier, and not its accuracy, as the proposition has it.

    >>> robustness_index(records, at_least(0.5))   # certified accuracy at 0.5
    >>> robustness_index(records, lambda r: r)     # ACR
    """
    refuse_none(records)
    values = [float(gamma(record.radius)) for record in records if right(record)]
    for value in values:
        if not 0 <= value < math.inf:
            raise InputError(f"gamma must map radii to non-negative finite numbers, got {value}")
    return math.fsum(values) / len(records)


def at_least(radius: float) -> Gamma:
    """gamma_1 = 1{r >= radius}: its index is the certified accuracy at `radius`."""
    return lambda r: float(r >= radius)


def log_ball_volume(radius: float, dim: int) -> float:
    """Logarithm of the volume of an l2 ball: d/2 log pi - log Gamma(d/2 + 1) + d log r; -inf for radius 0.

    In logarithms because the volume itself leaves float64: at d = 3072 and r = 1 it is 1e-3466.
    """
    if type(dim) is not int or dim < 1 or not 0 <= radius < math.inf:
        raise InputError(f"dim must be a positive whole number and radius non-negative, got {dim} and {radius}")
    if radius == 0:
        return -math.inf
    return dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1) + dim * math.log(radius)


def log_mean_volume(records: Sequence[Record], dim: int) -> float:
    """Logarithm of the mean volume of the certified l2 balls, the index of gamma_3; -inf if nothing is certified.

    `dim` is the number of coordinates of an input. Exact in log space (log-sum-exp), whatever the dimension.
    """
    refuse_none(records)
    volumes = [log_ball_volume(record.radius if right(record) else 0.0, dim) for record in records]
    return float(special.logsumexp(volumes)) - math.log(len(records))


@dataclass(frozen=True)
class ClassMeasures:
    """What the inputs of one true class amount to."""

    label: int
    inputs: int
    acr: float
    acr_interval: Interval
    accuracy: tuple[Share, ...]  # one per radius

    def to_json(self, radii: Sequence[float]) -> dict[str, Any]:
        """All of it, each accuracy beside its radius."""
        pairs = zip(radii, self.accuracy, strict=True)
        return asdict(self) | {"accuracy": [{"radius": r, **share.to_json()} for r, share in pairs]}


def per_class(records: Sequence[Record], radii: Sequence[float]) -> tuple[ClassMeasures, ...]:
    """ACR and certified accuracy of each true class, ascending; weighted by their inputs they add up to the whole."""
    refuse_none(records)
    if not all(record.labelled for record in records):
        raise InputError("measures per class need labels, and some inputs have none; certify labelled data")
    groups: dict[int, list[Record]] = {}
    for record in records:
        groups.setdefault(record.label, []).append(record)
    return tuple(
        ClassMeasures(
            label,
            len(group),
            average_certified_radius(group),
            acr_interval(group, seed=0),
            certified_shares(group, radii),
        )
        for label, group in sorted(groups.items())
    )
