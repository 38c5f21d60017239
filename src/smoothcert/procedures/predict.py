"""PREDICT (Cohen et al. 2019, section 3.2.1): the smoothed classifier's answer, or an abstention."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

from smoothcert.procedures.certificate import Prediction
from smoothcert.procedures.conversation import Ask, Conversation, check_draws, check_level
from smoothcert.procedures.from_draws import ABSTAIN
from smoothcert.stats import top_two_p_value

PREDICT = "predict"


@dataclass(frozen=True, kw_only=True)
class Predict:
    """n draws; the top class if it beats the runner-up in a two-sided binomial test at level alpha (proposition 2).

    A returned class differs from the true top class under noise with probability at most alpha.
    """

    n: int = 1_000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        check_level("alpha", self.alpha)
        # All votes for one class give a p-value of 2^(1-n): about log2(2/alpha) draws, 11 at alpha = 0.001.
        smallest = next(n for n in itertools.count(1) if top_two_p_value(n, 0) <= self.alpha)
        check_draws("n", self.n, smallest)

    def predict(self) -> Conversation[Prediction]:
        """Vote, then test the two leaders against each other."""
        tally = yield Ask(PREDICT, self.n)
        top, second = tally.votes[tally.top], tally.votes[tally.runner_up]
        p_value = top_two_p_value(top, second)
        clear = p_value <= self.alpha
        counts = f"class {tally.top} has {top} votes, class {tally.runner_up} has {second}, of {tally.draws}"
        return Prediction(
            label=tally.top if clear else ABSTAIN,
            reason=counts if clear else f"too close to call: {counts}",
            p_value=p_value,
            alpha=self.alpha,
            procedure=self.describe(),
        )

    def describe(self) -> dict[str, Any]:
        """Name and options, as they stand in an answer."""
        return {"name": "predict"} | asdict(self)
