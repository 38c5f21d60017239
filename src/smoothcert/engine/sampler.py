"""Draws of many inputs become full batches become votes.

What noise a draw has depends on its number alone (`core.randomness`). One conversation per input says how many draws it
asks for; whoever is decided leaves, and others fill the batch. Votes are counted where the model runs, so memory does
not grow with the number of draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from torch import Tensor

from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.pieces import Batch, Counts, Piece, Whole
from smoothcert.engine.pools import Session
from smoothcert.noise import Noise
from smoothcert.procedures import Ask, Conversation, answered
from smoothcert.procedures.certificate import Answered
from smoothcert.stats import Tally

Answer = TypeVar("Answer", bound=Answered)

FLUSH = 2**20
"""Draws whose squares of scores surely fit in 64 bits; then the count goes on in Python's own integers."""


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
    used: dict[str, int] = field(default_factory=dict)  # draws handed out so far, by purpose
    answers: list[tuple[str, Tally]] = field(default_factory=list)  # all so far, for the record
    seed: int | None = None  # of its draws; None: the sampler's

    def request(self, ask: Ask) -> None:
        """Begin a new request. A purpose goes on where it stopped: no draw is ever used twice."""
        self.ask, self.tally, self.counts, self.uncounted = ask, None, None, 0
        self.missing = self.unsent = ask.n

    def take(self, most: int, seed: int) -> Piece:
        """The next draws of the current request, as a piece of work."""
        rows, purpose = min(most, self.unsent), self.ask.purpose
        first = self.used.get(purpose, 0)
        self.unsent -= rows
        self.used[purpose] = first + rows
        seed = seed if self.seed is None else self.seed
        return Piece(self.x, self.input_id, self.noise, seed, purpose, self.ask.beta, first, rows, self.weights)

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

    def count(self, counts: Whole, rows: int) -> None:
        """Add what some draws came to; before 64 bits might not do, Python's integers take over."""
        self.counts = counts if self.counts is None else self.counts + counts
        self.missing, self.uncounted = self.missing - rows, self.uncounted + rows
        if not self.missing or self.uncounted >= FLUSH:
            more = Tally(*map(tuple, self.counts.tolist()))
            self.tally = more if self.tally is None else self.tally + more
            self.counts, self.uncounted = None, 0


@dataclass(frozen=True)
class Sampler:
    """Holds conversations with a pool. The same votes whatever the workers, the order, what is lost, an interruption.

    Args:
        session: the pool at work on the compiled model.
        seed: of all draws.
        rows_per_call: at most this many rows go through the model at once.
        packed: whether a row gets the same scores, to the last bit, at any place and in any company. Only then do draws
            of several requests share a call, and is a request cut where it suits. Else every request is run by itself,
            in full calls and a rest, so that what a row's company is follows from what was asked for.
        call_rows: of packed draws, told how many rows a batch has, and whether somebody is at work: in a call of how
            many rows may they be run, with the same scores to the last bit? At least so many.
        member_calls: counts evaluations of an ensemble's members.
    """

    session: Session
    seed: int
    rows_per_call: int
    packed: bool
    call_rows: Callable[[int, bool], int]
    member_calls: MemberCalls = field(default_factory=MemberCalls)

    def run(
        self, inputs: Iterable[InputProgress[Answer]], on_draws: Callable[[int], None]
    ) -> Iterator[tuple[InputProgress[Answer], Answer]]:
        """Hold all conversations; yield each answer as soon as it is there."""
        queue = _Queue(self, iter(inputs))
        for work, counts in self.session.results(queue.next_batch):
            self.member_calls.add(counts.member_calls)
            for progress, rows, found in queue.take_back(work, counts):
                on_draws(rows)
                progress.count(found, rows)
                if progress.missing:
                    continue
                answer = progress.hear()
                if answer is None:
                    queue.ready.appendleft(progress)
                else:
                    yield progress, answer


Sent = tuple[InputProgress[Any], Piece]


class _Queue(Generic[Answer]):
    """What is to be drawn next: for inputs under way, oldest first; for new inputs only when those ask for nothing."""

    def __init__(self, sampler: Sampler, waiting: Iterator[InputProgress[Answer]]) -> None:
        self._sampler, self._waiting = sampler, waiting
        self.ready: deque[InputProgress[Answer]] = deque()
        self._sent: dict[int, tuple[Batch, list[Sent]]] = {}

    def next_batch(self, under_way: int) -> Batch | None:
        """A full batch; with draws for fewer than that per idle worker, an equal share of them."""
        sampler, full = self._sampler, self._sampler.rows_per_call
        if not sampler.packed:
            return self._send(self._take(full, several=False), full) if self._available(1) else None
        idle = max(1, sampler.session.workers - under_way)
        available = self._available(idle * full)
        if not available:
            return None
        rows = share = min(full, -(-available // idle))
        size = full if share == full else sampler.call_rows(share, under_way > 0)
        if size == full:  # a full call takes as long for a few rows
            rows = min(full, available)
        return self._send(self._take(rows, several=True), size)

    def take_back(self, work: object, counts: Counts) -> Iterator[tuple[InputProgress[Answer], int, Whole]]:
        """What a batch came to, by input: the rows, and what they count, (1 or 3, C)."""
        _, sent = self._sent.pop(id(work))
        for number, (progress, piece) in enumerate(sent):
            found = counts.votes[number : number + 1]
            if piece.inverse_temperature is not None:
                assert counts.scores is not None
                found = np.concatenate([found, counts.scores[number]])
            yield progress, piece.rows, found

    def _send(self, sent: list[Sent], rows_per_call: int) -> Batch:
        batch = Batch(tuple(piece for _, piece in sent), rows_per_call)
        self._sent[id(batch)] = batch, sent
        return batch

    def _available(self, most: int) -> int:
        """How many draws can be handed out now, if fewer than `most`; new inputs are begun for that."""
        found = 0
        for progress in self.ready:
            found += progress.unsent
            if found >= most:
                return most
        while found < most:
            new = next(self._waiting, None)
            if new is None:
                return found
            new.request(next(new.conversation))
            self.ready.append(new)
            found += new.unsent
        return most

    def _take(self, rows: int, *, several: bool) -> list[Sent]:
        """So many draws, of several requests or of the first one."""
        taken: list[Sent] = []
        while rows and self.ready and (several or not taken):
            progress = self.ready[0]
            piece = progress.take(rows, self._sampler.seed)
            taken.append((progress, piece))
            rows -= piece.rows
            if not progress.unsent:
                self.ready.popleft()
        return taken
