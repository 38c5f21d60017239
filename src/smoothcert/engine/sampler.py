"""Draws of many inputs become full batches become votes.

What noise a draw has depends on its number alone (`core.randomness`). One conversation per input says how many draws it
asks for; whoever is decided leaves, and others fill the batch. Votes are counted where the model runs, so memory does
not grow with the number of draws.

Where there is less to draw than workers could, they draw ahead: the next numbers of conversations under way, whose
votes wait, one by one, until they are asked for. Who never asks for them never hears of them: answers, records and
counts of draws are those without it, and what was drawn for nothing is in none of them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np

from smoothcert.engine.input_progress import Answer, InputProgress
from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.pieces import Batch, Counts, Piece
from smoothcert.engine.pools import Session

WORK_SECONDS = 0.04
"""Where calls are shorter, a worker is given several at once: every handing over costs all of them some time in which
they wait for Python's lock."""

MOST_CALLS = 16
"""That a worker is given at once."""

MOST_BYTES = 2**22
"""Of the noisy inputs of several calls, which are drawn at once."""


@dataclass(frozen=True)
class Sampler:
    """Holds conversations with a pool. The same votes whatever the workers, the order, what is lost, an interruption.

    Args:
        session: the pool at work on the compiled model.
        seed: of all draws.
        rows_per_call: at most this many rows go through the model at once.
        packed: whether a row gets the same scores, to the last bit, at any place and in any company. Only then do draws
            of several requests share a call, and is a request cut where it suits. Else every request is run by itself,
            in calls of whole units and a rest, so that what a row's company is follows from what was asked for.
        unit: the model runs a call in passes of so many rows; those of a full call, if in one pass.
        call_rows: of packed draws, told how many rows a batch has, and whether there is time to look at the model: in
            a call of how many rows may they be run, with the same scores to the last bit? At least so many.
        num_classes: of the scores.
        ahead: whether draws may be made ahead: packed ones, of a model whose evaluations nobody counts.
        member_calls: counts evaluations of an ensemble's members.
    """

    session: Session
    seed: int
    rows_per_call: int
    unit: int
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
        self._call_seconds = math.inf  # of a full call, the fastest so far
        self._most_calls = 1  # that a worker is given at once

    def next_batch(self, under_way: int) -> Batch | None:
        """A full call, or several if they are short; with draws for fewer per idle worker, an equal share of them."""
        sampler, full = self._sampler, self._sampler.rows_per_call
        calls = self._calls_at_once()
        idle = sampler.session.workers - under_way
        parts = max(1, idle)
        if not sampler.packed or calls > 1:
            if not self._available(1):
                return None
            rows = calls * full
            if not sampler.packed:
                rows = min(rows, self._whole_units(self._ready[0].unsent, parts))
            return self._send(self._take(rows, several=sampler.packed), full)
        asked = self._available(parts * full)
        if idle <= 0 and asked < full:
            return None  # all are at work, and what they come to may bring enough for a full call
        ahead = 0
        if sampler.ahead and asked < idle * full and sampler.session.workers > 1:
            ahead = self._room_ahead(idle * full - asked)
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
        batch, sent = self._sent.pop(id(work))
        self._measure(batch, counts.seconds)
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
        """It asks for more; those under way go first, behind one of whose request only a rest is left to hand out."""
        if progress.unsent:
            begun = bool(self._ready) and self._ready[0].unsent < self._ready[0].ask.n
            self._ready.insert(int(begun), progress)

    def end(self, progress: InputProgress[Answer]) -> None:
        """It is answered."""
        del self._open[progress]

    @property
    def ended(self) -> bool:
        """Whether everybody is answered, and nobody waits."""
        return not self._open and not self._available(1)

    def _calls_at_once(self) -> int:
        """How many full calls to hand out at once: fewer towards the end, so that all workers end together."""
        if self._most_calls == 1:
            return 1
        share = 2 * self._sampler.session.workers * self._sampler.rows_per_call
        return max(1, self._available(self._most_calls * share) // share)

    def _whole_units(self, rows: int, parts: int) -> int:
        """An equal share of a request's rows, in whole units from its first row on; what is left may be less."""
        unit = self._sampler.unit
        return -(-rows // (parts * unit)) * unit

    def _measure(self, batch: Batch, seconds: float) -> None:
        """Learn from what a batch took how many calls to hand out at once."""
        full, row_bytes = self._sampler.rows_per_call, batch.pieces[0].x.nbytes
        calls = batch.rows // full
        if calls and seconds / calls < self._call_seconds:
            self._call_seconds = seconds / calls
            room = MOST_BYTES // (full * row_bytes)
            self._most_calls = max(1, min(MOST_CALLS, room, int(WORK_SECONDS / max(self._call_seconds, 1e-6))))

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

    def _room_ahead(self, most: int) -> int:
        """How many draws may be made ahead, if fewer than `most`."""
        found = 0
        for progress in self._open:
            found += progress.room_ahead(free=False)
            if found >= most:
                return most
        return found

    def _take_ahead(self, rows: int) -> list[Sent]:
        """So many draws at most that nobody has asked for yet; a place that would be empty is free."""
        taken: list[Sent] = []
        for free in (False, True):
            for progress in self._open:
                if not rows:
                    return taken
                more = min(rows, progress.room_ahead(free=free))
                if more:
                    taken.append((progress, progress.take_ahead(more, self._sampler.seed)))
                    rows -= more
        return taken
