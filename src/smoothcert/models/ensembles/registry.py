"""Aggregations by name."""

from __future__ import annotations

from smoothcert.core.errors import InputError
from smoothcert.models.ensembles.base import Aggregation
from smoothcert.models.ensembles.consensus import Consensus
from smoothcert.models.ensembles.denoised import Denoised
from smoothcert.models.ensembles.early_exit import EarlyExit
from smoothcert.models.ensembles.max_margin import MaxMargin
from smoothcert.models.ensembles.voting import HardVoting, SoftmaxVoting, SoftVoting

AGGREGATIONS: dict[str, type[Aggregation]] = {
    kind.name: kind for kind in (SoftVoting, SoftmaxVoting, HardVoting, Consensus, EarlyExit, MaxMargin, Denoised)
}


def aggregation(name: str) -> type[Aggregation]:
    """The aggregation of that name."""
    if name not in AGGREGATIONS:
        raise InputError(f"aggregation must be one of {', '.join(AGGREGATIONS)}, got {name!r}")
    return AGGREGATIONS[name]
