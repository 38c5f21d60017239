"""What an ensemble cost: evaluations per member, counted by whoever wants to know."""

from __future__ import annotations

from collections.abc import Sequence


class MemberCalls:
    """Hand one to `certify` or `predict`, and it counts how many noisy inputs each member was asked about.

    It goes on counting over calls, and stays empty for models that are no ensembles. Evaluations per draw are
    sum(per_member) / max(per_member); the share of draws on which the first k of `Consensus` agreed is
    1 - per_member[k] / per_member[0].
    """

    def __init__(self) -> None:
        self._per_member: tuple[int, ...] = ()

    @property
    def per_member(self) -> tuple[int, ...]:
        """So far, in the order of the members."""
        return self._per_member

    def add(self, calls: Sequence[int]) -> None:
        """Count some more."""
        before = self._per_member or (0,) * len(calls)
        self._per_member = tuple(a + b for a, b in zip(before, calls, strict=True)) if calls else before

    def __repr__(self) -> str:
        return f"MemberCalls{self._per_member}"
