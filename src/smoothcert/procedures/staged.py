"""CERTIFYADP (Horvath et al. 2022, algorithm 2): certify a given radius in stages of fresh draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from smoothcert.core.errors import InputError
from smoothcert.procedures.certificate import Certificate, Decision
from smoothcert.procedures.choice import choose_class, out_of_reach
from smoothcert.procedures.conversation import (
    PROCEDURES,
    Ask,
    Conversation,
    Geometry,
    Procedure,
    check_draws,
    check_level,
    check_reachable,
)
from smoothcert.procedures.from_draws import ABSTAIN
from smoothcert.stats import Tally, lower_bound, upper_bound


@PROCEDURES.add
@dataclass(frozen=True, kw_only=True)
class Staged(Procedure):
    """At most n0 draws choose the class; stages n_1 < ... < n_s of fresh draws certify `radius`, give up, or go on.

    Stage i certifies at level alpha/s and gives up at level beta/(s-1), never in the last stage. A false certificate
    has probability at most alpha, by the union bound (theorem 6.1). The class is chosen once, as the paper says; its
    authors' code chooses it anew in every stage. Unlike in the paper, fewer than n0 draws choose it where they agree,
    which cannot make a certificate false (`procedures.choice`).
    """

    name: ClassVar[str] = "staged"
    radius: float
    stages: tuple[int, ...] = (100, 1_000, 10_000, 120_000)
    alpha: float = 0.001
    beta: float = 0.001
    n0: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        check_level("alpha", self.alpha)
        check_level("beta", self.beta)
        check_draws("n0", self.n0)
        for stage in self.stages:
            check_draws("stages", stage)
        if not self.stages or list(self.stages) != sorted(set(self.stages)):
            raise InputError(f"stages must grow, got {self.stages}; for example (100, 1000, 10000, 120000)")
        if not 0 < self.radius < math.inf:
            raise InputError(f"radius must be positive and finite, got {self.radius}")

    @classmethod
    def matching(
        cls,
        *,
        radius: float,
        n: int = 100_000,
        stages: int = 4,
        alpha: float = 0.001,
        beta: float = 0.001,
        n0: int = 100,
    ) -> Self:
        """Stages that can show the radii of `Fixed(n=n)`: n_s = ceil(n (1 - log_alpha(s))) (theorem 6.1 (3))."""
        last = math.ceil(n * (1 - math.log(stages) / math.log(alpha)))
        before = tuple(max(1, n // 10**i) for i in range(stages - 1, 0, -1))
        return cls(radius=radius, stages=(*before, last), alpha=alpha, beta=beta, n0=n0)

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """Choose the class once; then stage after stage, each with draws of its own."""
        p0, steps = noise.required_p(self.radius), len(self.stages)
        last = self.stages[-1]
        reachable = check_reachable(noise, self.radius, lower_bound(last, last, self.alpha / steps))
        chosen = yield from choose_class(self.n0, p0)
        label = chosen.top
        if not reachable or out_of_reach(chosen, p0):
            return self._certificate(noise, label, 0.0, chosen, None)
        for step, n in enumerate(self.stages, start=1):
            tally = yield Ask(f"stage-{step}", n)
            p_lower = lower_bound(tally.votes[label], n, self.alpha / steps)
            if p_lower >= p0:
                return self._certificate(noise, label, p_lower, tally, Decision(self.radius, True, step, steps))
            if step < steps and upper_bound(tally.votes[label], n, self.beta / (steps - 1)) < p0:
                break
        return self._certificate(noise, label, p_lower, tally, Decision(self.radius, False, step, steps))

    def most_draws(self) -> int:
        """All stages."""
        return self.n0 + sum(self.stages)

    def fixed_draws(self) -> int:
        """The n whose radius the last stage matches (theorem 6.1 (3), the other way round)."""
        return self.n0 + math.floor(self.stages[-1] / (1 - math.log(len(self.stages)) / math.log(self.alpha)))

    def _certificate(
        self, noise: Geometry, label: int, p_lower: float, tally: Tally, decision: Decision | None
    ) -> Certificate:
        """With no decision: given up on the draws that choose the class."""
        when = "by the choice of the class" if decision is None else f"in stage {decision.step} of {decision.steps}"
        decision = decision or Decision(self.radius, False, 1, len(self.stages))
        verdict = f"radius {self.radius} is certified" if decision.certified else f"radius {self.radius} is not shown"
        return Certificate(
            label=label if decision.certified else ABSTAIN,
            radius=self.radius if decision.certified else 0.0,
            reason=f"{verdict} {when}: {tally.votes[label]} of {tally.draws} votes for {label}",
            norm=noise.norm,
            p_lower=p_lower,
            alpha=self.alpha,
            procedure=self.describe(),
            decisions=(decision,),
        )
