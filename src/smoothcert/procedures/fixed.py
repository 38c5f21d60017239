"""CERTIFY with a fixed number of draws (Cohen et al. 2019, section 3.2.2), hard or soft, one- or two-sided."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from smoothcert.procedures.certificate import Certificate
from smoothcert.procedures.conversation import (
    BOUND,
    CHOOSE,
    MOST_DRAWS,
    PROCEDURES,
    Ask,
    Conversation,
    Geometry,
    Procedure,
    check_draws,
    check_level,
)
from smoothcert.procedures.from_draws import ABSTAIN
from smoothcert.stats import Bound, ClopperPearson, Tally
from smoothcert.stats.rounding import down, up


@dataclass(frozen=True, kw_only=True)
class FixedDraws(Procedure):
    """A procedure that takes n0 draws (CHOOSE) and n draws (BOUND) of every input, whatever they say.

    Its votes can be read again at another alpha, or with fewer of them (`analysis.reanalyse`), and compared with fresh
    ones: so n0 draws are made even where fewer would settle the class, as Cohen et al. do (of 100 100 draws that is
    nothing). `bound` says what is certified: the majority vote, or the highest mean score.
    """

    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    bound: Bound = field(default_factory=ClopperPearson)

    def __post_init__(self) -> None:
        check_level("alpha", self.alpha)
        check_draws("n0", self.n0)
        check_draws("n", self.n)

    def most_draws(self) -> int:
        """n0 + n, always."""
        return self.n0 + self.n

    def fixed_draws(self) -> int:
        """n0 + n: it is the measure."""
        return self.most_draws()


@PROCEDURES.add
@dataclass(frozen=True, kw_only=True)
class Fixed(FixedDraws):
    """n0 draws choose the class, n fresh draws bound its probability, the noise turns the bound into a radius.

    The certificate is false with probability at most alpha. With `runner_up`, the runner-up's probability is bounded
    too, at .1 alpha beside .9 alpha for the top class, which can certify inputs with p_A < 1/2. No union over classes
    is needed: with the class fixed by separate draws the true runner-up is one fixed class, and the largest of all
    upper bounds is at least its own.
    """

    name: ClassVar[str] = "fixed"
    runner_up: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_draws("n", self.n, smallest=self._smallest_n())

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """Choose, estimate, bound, radius."""
        chosen = yield Ask(CHOOSE, self.n0, self.bound.beta)
        label = self.bound.top(chosen)
        tally = yield Ask(BOUND, self.n, self.bound.beta)
        p_lower, p_upper = self._bounds(tally, label)
        radius = noise.radius(p_lower, p_upper)
        certified = radius > 0
        return Certificate(
            label=label if certified else ABSTAIN,
            radius=radius if certified else 0.0,
            reason=self._reason(tally, label, p_lower, p_upper, certified),
            norm=noise.norm,
            p_lower=p_lower,
            p_upper=p_upper,
            alpha=self.alpha,
            procedure=self.describe(),
        )

    def _bounds(self, tally: Tally, label: int) -> tuple[float, float | None]:
        if not self.runner_up:
            return self.bound.lower(tally, label, self.alpha), None
        p_lower = self.bound.lower(tally, label, 0.9 * self.alpha)
        others = (c for c in range(tally.num_classes) if c != label)
        p_upper = max(self.bound.upper(tally, c, 0.1 * self.alpha) for c in others)
        return p_lower, min(p_upper, math.nextafter(1 - p_lower, 1))

    def _reason(self, tally: Tally, label: int, p_lower: float, p_upper: float | None, certified: bool) -> str:
        what = "its mean score" if self.bound.beta is not None else f"{tally.votes[label]} of {tally.draws} votes"
        if certified:
            return f"class {label} has {what}: its probability is at least {down(p_lower, 6)}"
        ahead, bar = p_lower > 0.5, "1/2"
        if p_upper is not None:
            ahead, bar = p_lower > p_upper, f"the runner-up's {up(p_upper, 6)}"
        verdict = f"above {bar} but too little for any radius" if ahead else f"not above {bar}"
        return f"no class is clearly ahead: class {label} has {what}, a lower bound of {down(p_lower, 6)}, {verdict}"

    def _smallest_n(self) -> int:
        """The fewest draws that certify anything when all agree: 10 at alpha = 0.001 with Clopper-Pearson."""

        def enough(n: int) -> bool:
            p_lower, p_upper = self._bounds(self.bound.unanimous(n), 0)
            return p_lower > (0.5 if p_upper is None else p_upper)

        high = 1
        while high <= MOST_DRAWS and not enough(high):  # a bound from outside may never be
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high
