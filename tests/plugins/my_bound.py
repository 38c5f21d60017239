"""Hoeffding's bound for votes: looser than Clopper-Pearson, and a formula that fits in one line."""

import math
from dataclasses import dataclass
from typing import ClassVar

import smoothcert as sc
from smoothcert.stats import Bound, Tally


@sc.register
@dataclass(frozen=True)
class HoeffdingVotes(Bound):
    """votes/n -+ sqrt(log(1/alpha) / (2n)) (Hoeffding 1963). Certifies the hard, majority classifier."""

    name: ClassVar[str] = "hoeffding-votes"

    def top(self, tally: Tally) -> int:
        """The class with the most votes."""
        return tally.top

    def lower(self, tally: Tally, label: int, alpha: float) -> float:
        """Share of votes minus the margin."""
        return max(0.0, tally.votes[label] / tally.draws - self._margin(tally, alpha))

    def upper(self, tally: Tally, label: int, alpha: float) -> float:
        """Share of votes plus the margin."""
        return min(1.0, tally.votes[label] / tally.draws + self._margin(tally, alpha))

    def unanimous(self, n: int) -> Tally:
        """All n votes for class 0."""
        return Tally((n, 0))

    def _margin(self, tally: Tally, alpha: float) -> float:
        return math.sqrt(math.log(1 / alpha) / (2 * tally.draws)) + 1e-12  # more than it is rounded by
