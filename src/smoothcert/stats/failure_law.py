"""The law of the failures among the votes of a sequential test, walked from look to look, exactly."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from smoothcert.core.lazy import stats

WIDTH = 13.0  # standard deviations kept of a binomial; what is outside has a mass below 1e-30
SLACK = 1e-9  # of every budget, for the rounding of sums of positive terms (seen: below 1e-12)

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FailureLaw:
    """The failures of those that are undecided: mass[i] for low + i failures, and the mass certified so far."""

    mass: Array = field(default_factory=lambda: np.ones(1))
    low: int = 0
    draws: int = 0
    certified: float = 0.0

    def after(self, draws: int, failure: float) -> FailureLaw:
        """The law when `draws` have been made."""
        if not len(self.mass):
            return dataclasses.replace(self, draws=draws)
        more = draws - self.draws
        mean, deviation = more * failure, math.sqrt(more * failure * (1 - failure))
        first = max(0, math.floor(mean - WIDTH * deviation - WIDTH))
        last = min(more, math.ceil(mean + WIDTH * deviation + WIDTH))
        step = stats.binom.pmf(np.arange(first, last + 1), more, failure)
        mass = np.convolve(self.mass, step)  # sums of positive terms: the relative error stays at rounding level
        return FailureLaw(mass, self.low + first, draws, self.certified)

    def certifying(self, boundary: int) -> FailureLaw:
        """Those with at most `boundary` failures are certified and leave."""
        count = min(max(0, boundary + 1 - self.low), len(self.mass))
        gone = float(self.mass[:count].sum())
        return FailureLaw(self.mass[count:], self.low + count, self.draws, self.certified + gone)

    def giving_up(self, boundary: int) -> FailureLaw:
        """Those with at least `boundary` failures give up and leave."""
        return dataclasses.replace(self, mass=self.mass[: max(0, boundary - self.low)])

    def most_within(self, room: float) -> int:
        """The most failures such that those with as many or fewer have a mass of at most `room`; -1: not even none."""
        count = int(np.searchsorted(np.cumsum(self.mass), room, side="right")) if room > 0 else 0
        return self.low + count - 1 if count else -1

    def mass_up_to(self, boundary: int, more: int, failure: float) -> float:
        """The mass that has at most `boundary` failures after `more` draws."""
        count = min(max(0, boundary + 1 - self.low), len(self.mass))
        left = boundary - self.low - np.arange(count)
        return float((self.mass[:count] * stats.binom.cdf(left, more, failure)).sum())  # `dot` would wake up threads


def fixed_boundary(n: int, p0: float, alpha: float) -> int:
    """The most failures in n draws at which the fixed-n test rejects p <= p0; -1 if not even none does."""
    k = int(stats.binom.ppf(alpha, n, 1 - p0))
    while k >= 0 and stats.binom.cdf(k, n, 1 - p0) > alpha * (1 - SLACK):
        k -= 1
    return k
