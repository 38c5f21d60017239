"""The largest radius, with draws spent where they pay: a pilot chooses the class and how many draws to make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.lazy import stats
from smoothcert.procedures.certificate import Certificate
from smoothcert.procedures.conversation import (
    BOUND,
    CHOOSE,
    PROCEDURES,
    Ask,
    Conversation,
    Geometry,
    Procedure,
    check_draws,
    check_level,
)
from smoothcert.procedures.from_draws import ABSTAIN
from smoothcert.stats import lower_bound


@PROCEDURES.add
@dataclass(frozen=True, kw_only=True)
class Budgeted(Procedure):
    """`pilot` draws choose the class and n; n fresh draws bound its probability at the full level alpha.

    n maximises the expected radius minus a price per draw, over what the pilot leaves open about p_A (the posterior of
    a uniform prior). `price` is in units that need no tuning per noise: the share of the largest radius that
    `most` draws can show, that `most` draws must be worth. n depends on the pilot alone, so the bound is exact.
    """

    name: ClassVar[str] = "budgeted"
    most: int = 100_000
    price: float = 0.015
    alpha: float = 0.001
    pilot: int = 500

    def __post_init__(self) -> None:
        check_level("alpha", self.alpha)
        check_draws("pilot", self.pilot, 10)
        check_draws("most", self.most, math.floor(math.log(self.alpha) / math.log(0.5)) + 1)
        if not 0 <= self.price < math.inf:
            raise InputError(f"price must be non-negative and finite, got {self.price}")

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """Pilot, choice of n, bound, radius."""
        chosen = yield Ask(CHOOSE, self.pilot)
        label = chosen.top
        n = self.choose_n(chosen.votes[label], noise)
        tally = yield Ask(BOUND, n)
        p_lower = lower_bound(tally.votes[label], n, self.alpha)
        radius = noise.radius(p_lower)
        what = f"class {label} has {tally.votes[label]} of {n} votes after {chosen.votes[label]} of {self.pilot}"
        return Certificate(
            label=label if radius > 0 else ABSTAIN,
            radius=radius,
            reason=what if radius > 0 else f"no class is clearly ahead: {what}",
            norm=noise.norm,
            p_lower=p_lower,
            alpha=self.alpha,
            procedure=self.describe(),
        )

    def choose_n(self, successes: int, noise: Geometry) -> int:
        """argmax over n of E[radius(Lower(n p, n))] - price per draw, p from Beta(successes + 1, failures + 1)."""
        return _best_n(self, successes, noise)

    def value(self, n: int, ps: Sequence[float], noise: Geometry) -> float:
        """Expected radius of n draws, less their price, over equally likely success probabilities ps."""
        cost = self.price * noise.radius(lower_bound(self.most, self.most, self.alpha)) / self.most
        radii = [noise.radius(lower_bound(math.floor(n * p), n, self.alpha)) for p in ps]
        return sum(radii) / len(radii) - cost * n

    def most_draws(self) -> int:
        """The pilot and the largest n."""
        return self.pilot + self.most

    def fixed_draws(self) -> int:
        """`Fixed` with the largest n."""
        return self.pilot + self.most

    def candidates(self) -> list[int]:
        """Whole blocks, each about 1.3 times the one before, and `most`."""
        first = min(128, self.most)
        count = math.ceil(math.log(self.most / first) / math.log(1.3))
        return sorted({min(self.most, round(first * 1.3**i / 128) * 128 or first) for i in range(count)} | {self.most})


@lru_cache(maxsize=4096)
def _best_n(procedure: Budgeted, successes: int, noise: Geometry) -> int:
    failures = procedure.pilot - successes
    ps = stats.beta.ppf((np.arange(32) + 0.5) / 32, successes + 1, failures + 1).tolist()
    return max(procedure.candidates(), key=lambda n: procedure.value(n, ps, noise))
