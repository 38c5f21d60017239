"""The exact group-sequential test of "p > p0": certify, or give up, as early as possible, at total level alpha.

All draws are kept and looked at again and again (`stats.look_plan`). What may be certified at each look follows from a
dynamic programme over the number of failures under p0, so that alpha is spent exactly and not by a union bound.

Why it is valid: votes are independent with success probability p. "Some look has at most a_j failures" is decreasing
in failures, so by coupling its probability grows with p, and its largest value over p <= p0 is at p0, where it is the
alpha spent. Giving up early only takes certificates away, so the boundaries b_j cannot hurt.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache

from smoothcert.core.errors import InputError
from smoothcert.stats.failure_law import FailureLaw
from smoothcert.stats.look_plan import Plan, plans_and_last_look

NEGLIGIBLE = 1e-18  # what is left undecided with less than this probability is not walked on


@dataclass(frozen=True)
class Boundaries:
    """At look j, after `looks[j]` draws: certify at <= `certify[j]` failures, give up at >= `give_up[j]`.

    certify[j] = -1 means that no number of failures certifies there. `size` is the exact probability of certifying
    under p0, at most alpha.
    """

    p0: float
    looks: tuple[int, ...]
    certify: tuple[int, ...]
    give_up: tuple[int, ...]
    size: float

    def inside(self, outer: Boundaries) -> Boundaries:
        """These boundaries, certifying only where `outer` does, and giving up where it does."""
        certify = tuple(map(min, self.certify, outer.certify))
        return dataclasses.replace(self, certify=certify, give_up=tuple(map(min, self.give_up, outer.give_up)))


@lru_cache(maxsize=64)
def boundaries(p0s: tuple[float, ...], n: int, alpha: float, beta: float) -> tuple[Boundaries, ...]:
    """Boundaries for H0: p <= p0, one per p0 (ascending), aimed at the power of fixed tests with n draws.

    Looks at 16 draws and then again and again (`look_plan`); the last one lies beyond n, as far as it takes to lose at
    most 8e-4 of power at fourteen p above p0, if 1.5 n draws suffice for that.

    What is shown about power, by exact computation on a finer grid of p (`benchmarks/power.py`), and no more: with
    beta <= .001 it lost more than 8e-4 against the fixed test in 15 of 100 random settings; the largest loss is 1.5e-3
    (alpha = .05). With beta = .01 the loss reaches .0061. No bound is proved; what cannot be hurt by this is alpha.

    Several p0 are nested: a larger one certifies only where all smaller ones do. Then the largest p0 whose boundary is
    crossed is false with total probability alpha: if p0_i is the smallest that is false, crossing any false boundary
    means crossing that of p0_i. No union bound.
    """
    if n < 1 or not p0s or list(p0s) != sorted(set(p0s)) or not 0 < p0s[0] <= p0s[-1] < 1:
        raise InputError(f"p0s must ascend strictly between 0 and 1 and n be at least 1, got {p0s} and {n}")
    plans, last = plans_and_last_look(p0s, n, alpha, beta)
    tables: list[Boundaries] = []
    for plan in plans:
        table = _closed(plan, last, alpha)
        tables.append(table.inside(tables[-1]) if tables else table)
    return tuple(tables)


def _closed(plan: Plan, last: int, alpha: float) -> Boundaries:
    """The whole table of a plan."""
    boundary = plan.boundary(last, alpha)
    size = plan.size(last, boundary)
    if size > alpha:
        raise AssertionError(f"the boundaries spend {size} > alpha = {alpha}")
    give_up = tuple(min(b, boundary + 1) for b in (*plan.give_up, boundary + 1))  # what can no longer succeed
    return Boundaries(plan.p0, (*plan.looks, last), (*plan.certify, boundary), give_up, size)


def keeps_alpha(tables: tuple[Boundaries, ...], p0s: tuple[float, ...], alpha: float) -> bool:
    """Whether these are nested tables for p0s whose exact probability of a false certificate is at most alpha."""
    if tuple(table.p0 for table in tables) != p0s or len({table.looks for table in tables}) != 1:
        return False
    looks = tables[0].looks
    whole = [*looks, *(value for table in tables for value in (*table.certify, *table.give_up))]
    if not all(type(value) is int for value in whole) or list(looks) != sorted(set(looks)):
        return False
    for before, table in zip((None, *tables), tables, strict=False):
        if len(table.certify) != len(looks) or len(table.give_up) != len(looks):
            return False
        if before is not None and any(map(int.__gt__, table.certify, before.certify)):
            return False
        law = FailureLaw()
        for look, boundary in zip(looks, table.certify, strict=True):
            law = law.after(look, 1 - table.p0).certifying(boundary)
        if law.certified > alpha:
            return False
    return True


def operating_characteristics(table: Boundaries, p: float) -> tuple[float, float]:
    """Exact (probability of certifying, expected draws) when a vote succeeds with probability p."""
    law, expected = FailureLaw(), 0.0
    for look, a, b in zip(table.looks, table.certify, table.give_up, strict=True):
        undecided = float(law.mass.sum())
        if undecided < NEGLIGIBLE:
            break
        expected += undecided * (look - law.draws)
        law = law.after(look, 1 - p).certifying(a).giving_up(b)
    return law.certified, expected
