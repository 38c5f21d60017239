"""Aggregations by name."""

from __future__ import annotations

from smoothcert.ensembles.base import Aggregation
from smoothcert.ensembles.consensus import Consensus
from smoothcert.ensembles.denoised import Denoised
from smoothcert.ensembles.early_exit import EarlyExit
from smoothcert.ensembles.max_margin import MaxMargin
from smoothcert.ensembles.voting import HardVoting, SoftmaxVoting, SoftVoting
from smoothcert.errors import InputError

AGGREGATIONS: dict[str, type[Aggregation]] = {
    kind.name: kind for kind in (SoftVoting, SoftmaxVoting, HardVoting, Consensus, EarlyExit, MaxMargin, Denoised)
}


def aggregation(name: str) -> type[Aggregation]:
    """The aggregation of that name."""
    if name not in AGGREGATIONS:
        raise InputError(f"aggregation must be one of {', '.join(AGGREGATIONS)}, got {name!r}")
    return AGGREGATIONS[name]
