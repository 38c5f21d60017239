"""Questions to a routed classifier that come while it works: the router's engine first, then that of whom it chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from smoothcert.engine.live import LiveEngine, Outcome, Question
from smoothcert.engine.routed import Routed
from smoothcert.engine.routed_parts import noise_at
from smoothcert.procedures import Certificate
from smoothcert.procedures.routed import OfRouter, split_level


class RoutedEngine:
    """As `LiveEngine`, for a `Routed`: an engine for the router, and one for each member.

    A question is held by the router's engine, and then by that of the member which the router chose; both halves have
    draws of their own, under the seed of the question, and levels that were settled before. Those of one part share its
    batches. `on_votes` hears of the member's votes: they are about the classes that were asked for.
    """

    def __init__(
        self, routed: Routed, example: Tensor, *, on_batch: Callable[[int, int], None] = lambda rows, of: None
    ) -> None:
        self._routed, self._parts = routed, routed.compile(example.shape[1:])
        self._router = LiveEngine(routed.router, example, on_batch=on_batch)
        self._members = [LiveEngine(member, example, on_batch=on_batch) for member in routed.members.values()]

    @property
    def description(self) -> dict[str, Any]:
        """What identifies the routed classifier."""
        return self._parts.description

    @property
    def waiting(self) -> int:
        """How many wait for a turn, now."""
        return sum(engine.waiting for engine in (self._router, *self._members))

    def add(self, question: Question) -> None:
        """Ask."""
        of_router, _ = split_level(question.procedure, self._routed.router_share)
        part = Question(
            question.x, noise_at(self._routed.router, question.x), OfRouter(of_router), seed=question.seed,
            client=question.client, on_end=lambda outcome: self._chosen(question, outcome), whole=question,
        )  # fmt: skip
        self._router.add(part)

    def close(self) -> None:
        """Answer what was asked, and end: the router first, which asks the others."""
        for engine in (self._router, *self._members):
            engine.close()

    def _chosen(self, question: Question, route: Outcome) -> None:
        """In the thread of the router: it has answered, or never will."""
        if not isinstance(route, Certificate):
            question.on_end(route)
            return
        try:
            unasked = self._routed.unasked(question.procedure, question.x, route, self._parts)
            if unasked is None:
                self._ask_member(question, route)
                return
        except Exception as error:  # it concerns nobody else
            question.on_end(error)
            return
        question.on_end(unasked)

    def _ask_member(self, question: Question, route: Certificate) -> None:
        _, of_member = split_level(question.procedure, self._routed.router_share)
        member = list(self._routed.members.values())[route.label]

        def end(outcome: Outcome) -> None:
            if isinstance(outcome, Certificate):
                outcome = self._routed.joined(question.procedure, route, outcome, self._parts)
            question.on_end(outcome)

        part = Question(
            question.x, noise_at(member, question.x), of_member, seed=question.seed, client=question.client,
            on_end=end, on_votes=question.on_votes, whole=question,
        )  # fmt: skip
        self._members[route.label].add(part)
