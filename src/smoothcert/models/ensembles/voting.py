"""Voting of all members: of logits, of probabilities, or of answers (Horvath et al. 2022, H.3.1)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from smoothcert.models.ensembles.base import AGGREGATIONS, Ensemble, Member, ask_all, simplex


class _Weighted(Ensemble):
    """Members with weights; one with weight zero is not asked."""

    signed: ClassVar[bool] = False  # whether weights may be below zero

    def __init__(self, members: Sequence[nn.Module], weights: Sequence[float] | None = None) -> None:
        super().__init__(members)
        self.weights = simplex(weights, len(self.members), signed=self.signed)

    def options(self) -> dict[str, Any]:
        """The weights, which sum to one."""
        return {"weights": list(self.weights)}

    def with_weights(self, weights: Sequence[float]) -> Self:
        """The same members with weights that sum to one, taken as they are; nothing is copied."""
        other = copy.copy(self)
        other.weights = tuple(weights)
        return other

    def weighed(self, members: Sequence[Member], x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (k', B, C) and weights (k', 1, 1) of the k' members that have one."""
        chosen = [(member, weight) for member, weight in zip(members, self.weights, strict=True) if weight]
        scores = ask_all([member for member, _ in chosen], x)
        return scores, scores.new_tensor([weight for _, weight in chosen]).view(-1, 1, 1)


@AGGREGATIONS.add
class SoftVoting(_Weighted):
    """The weighted mean of the members' logits; by default all weigh the same (Horvath et al. 2022, equation 2).

    Weights may be below zero, where they are learned (their table 10). Members that are all equal give one member's
    float32 scores, to the last bit.
    """

    name: ClassVar[str] = "soft-voting"
    signed: ClassVar[bool] = True

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """sum_k w_k f_k(x)."""
        scores, weights = self.weighed(members, x)
        return (scores * weights).sum(0).float()


@AGGREGATIONS.add
class SoftmaxVoting(_Weighted):
    """The weighted mean of the members' probabilities, as in SWEEN (Liu et al. 2021) and EsbRS (Liu et al. 2023).

    Scores are its logarithm, so that a softmax of them is that mean again: the soft bounds then speak of it.
    """

    name: ClassVar[str] = "softmax-voting"

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """log sum_k w_k softmax(f_k(x))."""
        scores, weights = self.weighed(members, x)
        return torch.logsumexp(scores.log_softmax(2) + weights.log(), 0).float()


@AGGREGATIONS.add
class HardVoting(Ensemble):
    """The number of members that answer a class. Where classes have as many, the mean of the probabilities decides.

    The paper does not say how ties fall; the lowest class number would favour some classes.
    """

    name: ClassVar[str] = "hard-voting"

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """Votes, and half of the mean probability, which is less than one vote."""
        scores = ask_all(members, x)
        answers = torch.nn.functional.one_hot(scores.argmax(2), scores.shape[2])  # (k, B, C)
        return (answers.sum(0) + scores.softmax(2).mean(0) / 2).float()
