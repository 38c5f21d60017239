"""The better of two certificates from the same votes, one against 1/2 and one against the runner-up."""

from dataclasses import dataclass
from typing import ClassVar

import smoothcert as sc
from smoothcert.procedures import ABSTAIN, BOUND, CHOOSE, Ask, Certificate, Conversation, FixedDraws, Geometry


@sc.register
@dataclass(frozen=True, kw_only=True)
class Either(FixedDraws):
    """n0 draws choose the class; n draws give p_A at level alpha/2, and (p_A, p_B) at alpha/4 each.

    All of these bounds hold together with probability at least 1 - alpha, by the union bound, so the larger of the two
    radii may be claimed after looking at both. (The runner-up is one fixed class, since other draws chose the top one;
    the largest of all upper bounds is at least its own.)
    """

    name: ClassVar[str] = "either"

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """Choose, bound twice, take the better one."""
        chosen = yield Ask(CHOOSE, self.n0, self.bound.beta)
        label = self.bound.top(chosen)
        tally = yield Ask(BOUND, self.n, self.bound.beta)
        others = (c for c in range(tally.num_classes) if c != label)
        claims = [
            (self.bound.lower(tally, label, self.alpha / 2), None),
            (
                self.bound.lower(tally, label, self.alpha / 4),
                max(self.bound.upper(tally, c, self.alpha / 4) for c in others),
            ),
        ]
        p_lower, p_upper = max(claims, key=lambda claim: noise.radius(*claim))
        radius = noise.radius(p_lower, p_upper)
        rival = "1/2" if p_upper is None else "the runner-up"
        return Certificate(
            label=label if radius > 0 else ABSTAIN,
            radius=radius,
            reason=f"class {label} has {tally.votes[label]} of {tally.draws} votes, against {rival}",
            norm=noise.norm,
            p_lower=p_lower,
            p_upper=p_upper,
            alpha=self.alpha,
            procedure=self.describe(),
        )
