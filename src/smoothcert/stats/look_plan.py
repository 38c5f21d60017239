"""When the sequential test looks, and how much of alpha and of beta it has spent by then: its draws and its power.

All of this is tuning. The exact level of the test does not depend on it (`stats.group_sequential`); how many draws it
takes does, and `benchmarks/draws.py` measures that on public logs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from smoothcert.core.lazy import special, stats
from smoothcert.stats.failure_law import SLACK, FailureLaw, fixed_boundary

FIRST = 16  # draws of the first look, and the fewest between two while nothing can be certified
NEXT = 8  # the fewest between two later ones
STEPS = 0.12, 0.05  # draws to the next look as a share of those made, before and after votes without a failure certify
# Of alpha, spent on all looks but the last: the first that keeps the power of the fixed test (large alphas take less).
EARLY_SHARES = 0.6, 0.4, 0.25, 0.15, 0.08
UNANIMOUS = 0.3  # of that, spent by the look that certifies without a failure: most inputs of most data end there
FEW, SOON = 0.12, 0.4  # of that, spent soon after, for few failures: while the logarithm of the draws grows by SOON
LATER = 2.0  # the rest is spent with this power of the logarithm of the draws: inputs that take long decide the mean
HOPELESS = 0.05  # of beta, spent at the first look: inputs without a class to certify end there
HOPELESS_LATER = 3.0  # and with this power of the logarithm the rest
POWER = 0.99  # the alternative p1 is where the fixed test has this power
POWER_LOSS = 8e-4  # against the fixed test, where `_around` looks: decides how many draws the last look may take
MOST_DRAWS = 1.5  # times n, at the last look

TUNING = (
    *(FIRST, NEXT, STEPS, EARLY_SHARES, UNANIMOUS, FEW, SOON, LATER, HOPELESS, HOPELESS_LATER),
    *(POWER, POWER_LOSS, MOST_DRAWS),
)


@dataclass(frozen=True)
class Plan:
    """One p0 with everything settled but the last look: how early looks decide, and the laws that reach the last."""

    p0: float
    looks: tuple[int, ...]
    certify: tuple[int, ...]
    give_up: tuple[int, ...]
    law: FailureLaw  # under p0, those that were not certified
    walks: tuple[tuple[float, float, FailureLaw], ...]  # p, power of the fixed test there, law of the undecided under p

    def boundary(self, last: int, alpha: float) -> int:
        """The most failures that may still certify at the last look, with all of alpha spent."""
        room, more = alpha * (1 - SLACK) - self.law.certified, last - self.law.draws
        low, high = -1, self.law.low + len(self.law.mass) + more
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.law.mass_up_to(middle, more, 1 - self.p0) <= room
            low, high = (middle, high) if enough else (low, middle)
        return low

    def fewest(self, least: int, last: int, alpha: float) -> int:
        """The fewest draws, but `least`, at which as many failures may certify as at `last`: there power is highest."""
        boundary, low, high = self.boundary(last, alpha), least - 1, last
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.size(middle, boundary) <= alpha * (1 - SLACK)
            low, high = (low, middle) if enough else (middle, high)
        return high

    def loss(self, last: int, alpha: float) -> float:
        """The most power lost against the fixed test, over all p that are looked at."""
        boundary = self.boundary(last, alpha)
        return max(
            fixed - walk.certified - walk.mass_up_to(boundary, last - walk.draws, 1 - p)
            for p, fixed, walk in self.walks
        )

    def size(self, last: int, boundary: int) -> float:
        """The exact probability of certifying under p0, if nothing is ever given up."""
        return self.law.certified + self.law.mass_up_to(boundary, last - self.law.draws, 1 - self.p0)


def plans_and_last_look(p0s: Sequence[float], n: int, alpha: float, beta: float) -> tuple[list[Plan], int]:
    """Plans, and the fewest draws at the last look that keep the power of all fixed tests, or that lose least."""
    best = None
    for share in EARLY_SHARES:
        found = _with_share(share, p0s, n, alpha, beta)
        if best is None or found[0] < best[0]:
            best = found
        if not found[0]:
            break
    assert best is not None
    return best[2], best[1]


def _with_share(share: float, p0s: Sequence[float], n: int, alpha: float, beta: float) -> tuple[float, int, list[Plan]]:
    """(power lost beyond what is allowed, draws at the last look, plans), with this share of alpha spent before it."""
    looks = early_looks(share, p0s, n, alpha)
    found = list[tuple[float, int, list[Plan]]]()
    ending = zip(*(_plans(share, p0, n, alpha, beta, looks) for p0 in p0s), strict=True)
    for count, plans in enumerate(map(list, ending)):
        least = max(n, looks[count - 1] + 1 if count else 1)
        most = looks[count] if count < len(looks) else math.ceil(MOST_DRAWS * n)
        if most < least:
            continue
        found.append(_close(plans, least, most, alpha))
        if found[-1][0]:
            continue
        low, high = least - 1, most
        while high - low > max(1, n // 200):
            middle = (low + high) // 2
            closed = _close(plans, least, middle, alpha)
            if closed[0]:
                low = middle
            else:
                high, found[-1] = closed[1], closed
        return found[-1]
    return min(found, key=lambda candidate: candidate[:2])


def _close(plans: list[Plan], least: int, last: int, alpha: float) -> tuple[float, int, list[Plan]]:
    """(power lost beyond what is allowed, draws, plans) with the last look at `last` or a little before."""
    # Whole numbers of failures make the power jump; most so where failures are rarest.
    last = plans[-1].fewest(least, last, alpha)
    # A sum, so that one test that cannot be matched (few draws, large alpha) does not decide for the others.
    return sum(max(0.0, plan.loss(last, alpha) - POWER_LOSS) for plan in plans), last, plans


def early_looks(share: float, p0s: Sequence[float], n: int, alpha: float) -> tuple[int, ...]:
    """Draws at which the test looks before its last look, the same for all p0.

    Where votes without a failure first certify there is a look for them.
    """
    wanted = sorted({_unanimous(share, p0, alpha) for p0 in p0s})
    looks, at = list[int](), 0
    while True:
        step = max(FIRST, round(STEPS[0] * at)) if at < wanted[0] else max(NEXT, round(STEPS[1] * at))
        # Rather a longer step than one of a few draws.
        at = next((look for look in wanted if at < look <= at + 1.5 * step), at + step)
        if at >= MOST_DRAWS * n:
            return tuple(looks)
        looks.append(at)


def _unanimous(share: float, p0: float, alpha: float) -> int:
    """The first look at which no failure at all certifies."""
    return max(FIRST, math.ceil(math.log(UNANIMOUS * share * alpha * (1 - 2 * SLACK)) / math.log(p0)))


def _plans(share: float, p0: float, n: int, alpha: float, beta: float, looks: Sequence[int]) -> Iterator[Plan]:
    """The plan without any early look, with the first, with the first two, ..., with all."""
    most = fixed_boundary(n, p0, alpha)
    p1 = 1 - float(special.betaincinv(most + 1, n - most, 1 - POWER)) if most >= 0 else p0
    certify, give_up, spent = list[int](), list[int](), 0.0
    law, against = FailureLaw(), FailureLaw()
    around = [(p, float(stats.binom.cdf(most, n, 1 - p)), FailureLaw()) for p in _around(p0, n, most)]
    yield Plan(p0, (), (), (), law, tuple(around))
    for count, look in enumerate(looks, start=1):
        law = law.after(look, 1 - p0)
        a = law.most_within(_alpha_spent(share, look, p0, n, alpha) * (1 - SLACK) - law.certified)
        law, against = law.certifying(a), against.after(look, 1 - p1).certifying(a)
        b, gone = _give_up(against, _beta_spent(look, n, beta) - spent)
        against, spent = against.giving_up(b), spent + gone
        certify.append(a)
        give_up.append(b)
        around = [(p, fixed, walk.after(look, 1 - p).certifying(a).giving_up(b)) for p, fixed, walk in around]
        yield Plan(p0, tuple(looks[:count]), tuple(certify), tuple(give_up), law, tuple(around))


def _alpha_spent(share: float, look: int, p0: float, n: int, alpha: float) -> float:
    """How much of alpha may be spent up to a look: nothing until no failure at all may certify."""
    first, most = _unanimous(share, p0, alpha), MOST_DRAWS * n
    if look < first:
        return 0.0
    passed = math.log(look / first)
    soon, later = 1 - math.exp(-passed / SOON), math.pow(passed / math.log(most / first), LATER)
    return alpha * share * (UNANIMOUS + FEW * soon + (1 - UNANIMOUS - FEW) * later)


def _beta_spent(look: int, n: int, beta: float) -> float:
    """How much of beta may be spent up to a look."""
    later = math.pow(math.log(look / FIRST) / math.log(MOST_DRAWS * n / FIRST), HOPELESS_LATER)
    return beta * (HOPELESS + (1 - HOPELESS) * later)


def _give_up(law: FailureLaw, room: float) -> tuple[int, float]:
    """The fewest failures such that those with as many or more have a mass of at most `room`, and that mass."""
    tail = np.cumsum(law.mass[::-1])
    count = int(np.searchsorted(tail, room, side="right")) if room > 0 else 0
    return law.low + len(law.mass) - count, float(tail[count - 1]) if count else 0.0


def _around(p0: float, n: int, most: int) -> list[float]:
    """Where the power of the fixed test with n draws, which certifies at `most` failures, rises from 0 to 1."""
    halfway = (1 + p0) / 2
    if most < 0:
        return [halfway]
    powers = np.array([0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99, 0.997, 0.9995])
    return [*(1 - special.betaincinv(most + 1, n - most, 1 - powers)).tolist(), halfway]
