"""Draws of many inputs become full batches become votes.

What noise a draw has depends on its number alone (`core.randomness`). One conversation per input says how many draws it
asks for; whoever is decided leaves, and others fill the batch. Votes are counted where the model runs, so memory does
not grow with the number of draws.

Where there is less to draw than workers could, they draw ahead: the next numbers of conversations under way, whose
votes wait, one by one, until they are asked for. Who never asks for them never hears of them: answers, records and
counts of draws are those without it, and what was drawn for nothing is in none of them.
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
        call_rows: of packed draws, told how many rows a batch has, and whether there is time to look at the model: in
            a call of how many rows may they be run, with the same scores to the last bit? At least so many.
        num_classes: of the scores.
        ahead: whether draws may be made ahead: packed ones, of a model whose evaluations nobody counts.
        member_calls: counts evaluations of an ensemble's members.
    """

    session: Session
    seed: int
    rows_per_call: int
    packed: bool
    call_rows: Callable[[int, bool], int]
    num_classes: int
    ahead: bool
    member_calls: MemberCalls = field(default_factory=MemberCalls)

    def run(
        self, inputs: Iterable[InputProgress[Answer]], on_draws: Callable[[int], None]
    ) -> Iterator[tuple[InputProgress[Answer], Answer]]:
        """Hold all conversations; yield each answer as soon as it is there."""
        queue = _Queue(self, iter(inputs))
        for work, counts in self.session.results(queue.next_batch):
            self.member_calls.add(counts.member_calls)
            for progress, rows in queue.take_back(work, counts):
                on_draws(rows)
                answer = None
                while answer is None and not progress.missing:
                    answer = progress.hear()
                    if answer is None:
                        on_draws(progress.use_ahead(self.num_classes))
                        queue.add(progress)
                    else:
                        queue.end(progress)
                        yield progress, answer
            if queue.ended:
                return  # what is still under way was made ahead, and nobody asks for it any more


Sent = tuple[InputProgress[Any], Piece]


class _Queue(Generic[Answer]):
    """What is to be drawn next: for inputs under way, oldest first; for new inputs only when those ask for nothing."""

    def __init__(self, sampler: Sampler, waiting: Iterator[InputProgress[Answer]]) -> None:
        self._sampler, self._waiting = sampler, waiting
        self._open: dict[InputProgress[Answer], None] = {}  # begun and not answered, oldest first
        self._ready: deque[InputProgress[Answer]] = deque()  # of these, those with draws to hand out
        self._sent: dict[int, tuple[Batch, list[Sent]]] = {}

    def next_batch(self, under_way: int) -> Batch | None:
        """A full batch; with draws for fewer than that per idle worker, an equal share of them."""
        sampler, full = self._sampler, self._sampler.rows_per_call
        if not sampler.packed:
            return self._send(self._take(full, several=False), full) if self._available(1) else None
        idle = sampler.session.workers - under_way
        parts = max(1, idle)
        asked = self._available(parts * full)
        ahead = 0
        if sampler.ahead and asked < idle * full and sampler.session.workers > 1:
            ahead = min(idle * full - asked, sum(progress.room_ahead(free=False) for progress in self._open))
        if not asked + ahead:
            return None
        rows = share = min(full, -(-(asked + ahead) // parts))
        # Where the rest of a call is filled ahead, smaller calls are not worth looking for.
        size = full if share == full else sampler.call_rows(share, not (under_way or ahead))
        if not asked and size > ahead:
            return None  # nobody waits for it, and it would not even be full
        if size == full:  # a full call takes as long for a few rows
            rows = full
        sent = self._take(rows, several=True)
        if sampler.ahead:
            sent += self._take_ahead(size - sum(piece.rows for _, piece in sent))
        return self._send(sent, size)

    def take_back(self, work: object, counts: Counts) -> Iterator[tuple[InputProgress[Answer], int]]:
        """Tell each input what a batch came to: how many draws of its request that answers."""
        _, sent = self._sent.pop(id(work))
        end = 0
        for number, (progress, piece) in enumerate(sent):
            end += piece.rows
            if progress not in self._open:
                continue  # it was decided without these
            if piece.ahead:
                assert counts.answers is not None
                own = counts.answers[end - piece.rows : end]
                yield progress, progress.keep_ahead(piece, own, self._sampler.num_classes)
                continue
            found = counts.votes[number : number + 1]
            if piece.inverse_temperature is not None:
                assert counts.scores is not None
                found = np.concatenate([found, counts.scores[number]])
            yield progress, progress.count(found, piece.rows)

    def add(self, progress: InputProgress[Answer]) -> None:
        """It asks for more; those under way go first."""
        if progress.unsent:
            self._ready.appendleft(progress)

    def end(self, progress: InputProgress[Answer]) -> None:
        """It is answered."""
        del self._open[progress]

    @property
    def ended(self) -> bool:
        """Whether everybody is answered, and nobody waits."""
        return not self._open and not self._available(1)

    def _send(self, sent: list[Sent], rows_per_call: int) -> Batch:
        batch = Batch(tuple(piece for _, piece in sent), rows_per_call)
        self._sent[id(batch)] = batch, sent
        return batch

    def _available(self, most: int) -> int:
        """How many draws can be handed out now, if fewer than `most`; new inputs are begun for that."""
        found = 0
        for progress in self._ready:
            found += progress.unsent
            if found >= most:
                return most
        while found < most:
            new = next(self._waiting, None)
            if new is None:
                return found
            new.request(next(new.conversation))
            self._open[new] = None
            self._ready.append(new)
            found += new.unsent
        return most

    def _take(self, rows: int, *, several: bool) -> list[Sent]:
        """So many draws, of several requests or of the first one."""
        taken: list[Sent] = []
        while rows and self._ready and (several or not taken):
            progress = self._ready[0]
            piece = progress.take(rows, self._sampler.seed)
            taken.append((progress, piece))
            rows -= piece.rows
            if not progress.unsent:
                self._ready.popleft()
        return taken

    def _take_ahead(self, rows: int) -> list[Sent]:
        """So many draws at most that nobody has asked for yet; a place that would be empty is free."""
        taken: list[Sent] = []
        for free in (False, True):
            for progress in self._open if rows else ():
                more = min(rows, progress.room_ahead(free=free))
                if more:
                    taken.append((progress, progress.take_ahead(more, self._sampler.seed)))
                    rows -= more
        return taken
