"""The contract of an ensemble: it is a classifier, and how it asks its members is apart from who they are."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry
from smoothcert.models.foreign import in_own_precision

Member = Callable[[Tensor], Tensor]


AGGREGATIONS: Registry[type[Aggregation]] = Registry("aggregation")


class Aggregation(nn.Module):
    """Some networks that together are one classifier, known under a name in ensemble files and on the command line."""

    registry: ClassVar[Registry[Any]] = AGGREGATIONS
    name: ClassVar[str]
    least: ClassVar[int] = 1  # members

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        members = list(members)
        if len(members) < self.least:
            raise InputError(f"members of {self.name} must be at least {self.least}, got {len(members)}")
        for member in members:
            if not isinstance(member, nn.Module):
                raise InputError(
                    f"members must be torch modules, got {type(member).__name__}; write an nn.Module around it"
                )
        self.members = nn.ModuleList(map(in_own_precision, members))

    @classmethod
    def of(cls, members: Sequence[nn.Module], **options: Any) -> Self:
        """The aggregation of these members with these options, as `options` names them."""
        return cls(members, **options)

    def options(self) -> dict[str, Any]:
        """What it was made with besides its members, JSON-able."""
        return {}


class Ensemble(Aggregation):
    """Members that each score an input. Noise is drawn once for all: what they see is the same noisy input.

    The scores of a row depend on that row alone, also where members are asked about some of the rows only. So the
    ensemble is a fixed function of the noisy input, and every certificate holds for it as for any other classifier.
    """

    adaptive: ClassVar[bool] = False
    """Members are asked about fewer rows the later they come."""

    @abstractmethod
    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...), asking `members`: the ensemble's own, or the same ones run in another way."""

    def cost(self, asked: Sequence[int]) -> str:
        """What it cost, in words, given how many noisy inputs each member was asked about (`MemberCalls`)."""
        return f"{sum(asked) / max(asked):.2f} of {len(asked)} members were asked per draw"

    def forward(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...)."""
        return self.aggregate(list(self.members), x)


def ask(member: Member, x: Tensor) -> Tensor:
    """A member's scores (B, C), in float64: sums of members then do not depend on their order, to float32."""
    return member(x.clone()).double()  # a clone, because a member may work in place, and others come after it


def ask_all(members: Sequence[Member], x: Tensor) -> Tensor:
    """The scores of all members, (k, B, C)."""
    scores = [ask(member, x) for member in members]
    for number, score in enumerate(scores):
        if score.shape != scores[0].shape:
            raise InputError(
                f"members must answer for the same classes, but member 1 gives scores of shape "
                f"{tuple(scores[0].shape)} and member {number + 1} of shape {tuple(score.shape)}"
            )
    return torch.stack(scores)


def simplex(weights: Sequence[float] | None, members: int, *, signed: bool = False) -> tuple[float, ...]:
    """Weights that sum to one: those given, divided by their sum, or all equal; `signed` ones may be below zero."""
    if weights is None:
        return (1 / members,) * members
    try:
        values = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise InputError(f"weights must be numbers, got {weights!r}") from None
    if len(values) != members:
        raise InputError(f"weights must be one per member, got {len(values)} for {members} members")
    if not all(math.isfinite(value) and (signed or value >= 0) for value in values) or not math.fsum(values) > 0:
        allowed = "have a positive sum" if signed else "not negative and not all zero"
        raise InputError(f"weights must be finite{' and' if signed else ','} {allowed}, got {values}")
    total = math.fsum(values)
    return tuple(value / total for value in values)
