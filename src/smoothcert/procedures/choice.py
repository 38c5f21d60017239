"""Choosing the class: at most n0 draws, fewer where they agree. The one place for procedures that stop early."""

from __future__ import annotations

import math
from collections.abc import Generator

from smoothcert.core.lazy import special
from smoothcert.procedures.conversation import CHOOSE, Ask
from smoothcert.stats import Tally

FIRST = 16  # draws before the first look; then as many again as were made, up to n0
LEAD = 1.4  # times sqrt(n0) votes ahead of the runner-up settle the class: 15 of 16 with n0 = 100
HOPELESS = 1e-4  # the top class has too few votes for p0 if so few are less probable than this under p0


def choose_class(n0: int, p0: float) -> Generator[Ask, Tally, Tally]:
    """Ask for draws until one class leads clearly, or none can have p0 any more, or there are n0: their tally.

    The class is its `top`. Draws that choose never bound, so any rule is sound here: a wrong class, or giving up where
    none can have p0 (`out_of_reach`), can only lose a certificate.

    How much, with n0 = 100 against 100 draws without a look (`benchmarks/power.py`): of the probability to go on with
    the right class at most 2.2e-4 if there are two, exactly (at p_A = .55, where 100 draws are wrong in 16%; 1.1e-4 at
    .84, if p0 is no smaller), and in 5000 simulations at most one if there are ten. Where votes agree, it takes 16.
    """
    first = min(FIRST, n0)
    tally = yield Ask(CHOOSE, first, further=n0 - first)
    while tally.draws < n0 and not settled(tally, n0, p0):
        n = min(tally.draws, n0 - tally.draws)
        tally += yield Ask(CHOOSE, n, further=n0 - tally.draws - n)
    return tally


def settled(tally: Tally, n0: int, p0: float) -> bool:
    """Whether more draws are not worth making: one class leads clearly, or none can have p0."""
    lead = tally.votes[tally.top] - tally.votes[tally.runner_up]
    return lead >= LEAD * math.sqrt(n0) or out_of_reach(tally, p0)


def out_of_reach(tally: Tally, p0: float) -> bool:
    """Whether even the top class has too few votes for p0: then no draw is worth making."""
    return bool(special.bdtr(tally.votes[tally.top], tally.draws, p0) < HOPELESS)
