"""K-consensus: where the first members agree, the others are not asked (Horvath et al. 2022, section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.ensembles.base import AGGREGATIONS, Ensemble, Member, ask, ask_all


@AGGREGATIONS.add
class Consensus(Ensemble):
    """Soft voting of the first k members where they agree on the class, and of all members elsewhere.

    Members come in the order of their accuracy under noise, the best first (`rank`). The others see only the noisy
    inputs on which the first k disagree, as a smaller batch. This is another classifier than soft voting of all.
    """

    name: ClassVar[str] = "consensus"
    adaptive: ClassVar[bool] = True

    def __init__(self, members: Sequence[nn.Module], k: int = 2) -> None:
        super().__init__(members)
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(self.members):
            raise InputError(f"k must be a whole number from 1 to the {len(self.members)} members, got {k!r}")
        self.k = k

    def options(self) -> dict[str, Any]:
        """How many must agree."""
        return {"k": self.k}

    def cost(self, asked: Sequence[int]) -> str:
        """With the share of draws that stopped after k members (KCR)."""
        stopped = 1 - asked[self.k] / asked[0] if self.k < len(asked) else 0.0
        return f"{super().cost(asked)}; the first {self.k} agreed on {stopped:.1%} of draws"

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """The mean logits of k or of all members."""
        first = ask_all(members[: self.k], x)  # (k, B, C)
        answers, mean = first.argmax(2), (first * (1 / self.k)).sum(0)  # summed as soft voting does
        open_ = (answers != answers[0]).any(0).nonzero().squeeze(1)  # rows without a consensus
        if len(open_) and self.k < len(members):
            total = first[:, open_].sum(0)
            for member in members[self.k :]:
                total = total + ask(member, x[open_])
            mean = mean.index_copy(0, open_, total / len(members))
        return mean.float()
