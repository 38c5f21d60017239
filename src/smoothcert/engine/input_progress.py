"""What is known about one input while draws of it are made: what its conversation asks for, and what they said."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from torch import Tensor

from smoothcert.engine.pieces import Piece, Whole
from smoothcert.noise import Noise
from smoothcert.procedures import Ask, Conversation, answered
from smoothcert.procedures.certificate import Answered
from smoothcert.stats import Tally

Answer = TypeVar("Answer", bound=Answered)

FLUSH = 2**20
"""Draws whose squares of scores surely fit in 64 bits; then the count goes on in Python's own integers."""

AHEAD = 0.25
"""Of the draws that a conversation has asked for of a purpose, so many may be made ahead where that costs time."""

NOTHING: Whole = np.empty(0, dtype=np.int64)
UNKNOWN = -1


@dataclass(eq=False)
class InputProgress(Generic[Answer]):
    """One input, the conversation about it, and how far its current request for draws has been answered."""

    row: int  # in the batch of inputs
    x: Tensor  # one input, on the CPU
    noise: Noise
    input_id: str
    conversation: Conversation[Answer]
    weights: tuple[float, ...] | None = None  # of an ensemble's members, where they are the input's own
    ask: Ask = field(init=False)
    tally: Tally | None = None  # what was added up of the current request
    counts: Whole | None = None  # (1 or 3, C) what was not yet: votes and, if wanted, score sums and squares
    missing: int = 0  # draws of the current request that are not counted yet
    uncounted: int = 0  # draws in `counts`
    unsent: int = 0  # draws of the current request that were not handed out
    used: dict[str, int] = field(default_factory=dict)  # draws handed out so far, by purpose, but those ahead
    ahead: dict[str, Whole] = field(default_factory=dict)  # by purpose, votes of the draws that follow, or UNKNOWN
    answers: list[tuple[str, Tally]] = field(default_factory=list)  # all so far, for the record
    seed: int | None = None  # of its draws; None: the sampler's

    def request(self, ask: Ask) -> None:
        """Begin a new request. A purpose goes on where it stopped: no draw is ever used twice."""
        self.ask, self.tally, self.counts, self.uncounted = ask, None, None, 0
        self.missing = self.unsent = ask.n

    def take(self, most: int, seed: int) -> Piece:
        """The next draws of the current request, as a piece of work."""
        rows, first = min(most, self.unsent), self.used.get(self.ask.purpose, 0)
        self.unsent -= rows
        self.used[self.ask.purpose] = first + rows
        return self._piece(first, rows, seed)

    def room_ahead(self, *, free: bool) -> int:
        """How many draws may be made ahead now; fewer where they are not free."""
        ask = self.ask
        if self.unsent or ask.beta is not None:
            return 0
        most = ask.further if free else min(ask.further, int(AHEAD * self.used[ask.purpose]))
        return max(0, most - len(self.ahead.get(ask.purpose, NOTHING)))

    def take_ahead(self, rows: int, seed: int) -> Piece:
        """Draws that follow those of the current request and those that were made ahead already."""
        purpose = self.ask.purpose
        before = self.ahead.get(purpose, NOTHING)
        self.ahead[purpose] = np.concatenate([before, np.full(rows, UNKNOWN)])
        return self._piece(self.used[purpose] + len(before), rows, seed, ahead=True)

    def _piece(self, first: int, rows: int, seed: int, *, ahead: bool = False) -> Piece:
        seed = seed if self.seed is None else self.seed
        about = self.x, self.input_id, self.noise, seed, self.ask.purpose, self.ask.beta
        return Piece(*about, first, rows, self.weights, ahead)

    def use_ahead(self, classes: int) -> int:
        """Answer the request, as far as they go, with draws that were made ahead; how many of them are known by now."""
        purpose, before = self.ask.purpose, self.ahead.get(self.ask.purpose, NOTHING)
        asked, self.ahead[purpose] = before[: self.ask.n], before[self.ask.n :]
        self.unsent -= len(asked)
        self.used[purpose] = self.used.get(purpose, 0) + len(asked)
        return self._count_each(asked[asked != UNKNOWN], classes)

    def keep_ahead(self, piece: Piece, answers: Whole, classes: int) -> int:
        """Take votes of draws that were made ahead; how many of them are asked for by now, and counted."""
        used, kept = self.used[piece.purpose], self.ahead[piece.purpose]
        asked = min(max(0, used - piece.first), piece.rows)
        kept[piece.first + asked - used : piece.first + piece.rows - used] = answers[asked:]
        return self._count_each(answers[:asked], classes)

    def hear(self) -> Answer | None:
        """Tell the conversation what its draws said: its answer, or None if it asks for more."""
        assert self.tally is not None
        self.answers.append((self.ask.purpose, answered(self.ask, self.tally)))
        try:
            self.request(self.conversation.send(self.tally))
            return None
        except StopIteration as stop:
            answer: Answer = replace(stop.value, answers=tuple(self.answers))
            return answer

    def _count_each(self, answers: Whole, classes: int) -> int:
        return self.count(np.bincount(answers, minlength=classes)[None], len(answers)) if len(answers) else 0

    def count(self, counts: Whole, rows: int) -> int:
        """Add what some draws came to; before 64 bits might not do, Python's integers take over. Returns `rows`."""
        self.counts = counts if self.counts is None else self.counts + counts
        self.missing, self.uncounted = self.missing - rows, self.uncounted + rows
        if not self.missing or self.uncounted >= FLUSH:
            more = Tally(*map(tuple, self.counts.tolist()))
            self.tally = more if self.tally is None else self.tally + more
            self.counts, self.uncounted = None, 0
        return rows
