"""How sure a classifier is of each input: the distribution of p_A (Sun et al. 2025).

The ACR grows without end on inputs that are easy already, and so hides what happens to hard ones. The lower bound of
p_A over all inputs, 0 where the answer is wrong or missing, shows both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.measures import Share, refuse_none, right
from smoothcert.core.errors import InputError
from smoothcert.runs import Record

LEVELS = (0.5, 0.75, 0.9, 0.99)


def lower_bounds(records: Sequence[Record]) -> npt.NDArray[np.float64]:
    """The lower bound of p_A of each input, 0 where the answer is wrong or missing, ascending: (N,).

    Of `Fixed` and `Budgeted`, whose bound is of the label. Public logs keep none, and procedures that decide given
    radii bound p_A only as far as these need: both are refused.
    """
    refuse_none(records)
    found = []
    for record in records:
        certificate = record.certificate
        if certificate is None or certificate.decisions:
            raise InputError("the distribution of p_A needs runs of fixed or budgeted; others keep no bound of it")
        # Where a memory answers another class than the draws did, their bound is not of the answer.
        shown = right(record) and certificate.drawn_label == record.prediction
        found.append(certificate.p_lower if shown else 0.0)
    return np.sort(np.array(found, dtype=np.float64))


def share_below(records: Sequence[Record], levels: Sequence[float] = LEVELS) -> tuple[Share, ...]:
    """The empirical CDF of the lower bound, strictly below each level: how many inputs are harder than that.

    Below 1/2 is what is not certified at all.
    """
    bounds = lower_bounds(records)
    return tuple(Share(int(np.searchsorted(bounds, level, side="left")), len(bounds)) for level in levels)
