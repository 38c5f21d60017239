"""Draws of many inputs become full batches become votes.

Draws come in blocks of 128; what noise a block has depends on its name alone (`core.randomness`). One conversation per
input says how many draws it asks for; whoever is decided leaves, and others fill the batch. Votes are counted on the
device and fetched once per request, so memory does not grow with the number of draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import BLOCK
from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.pieces import Batch, Counts, Piece
from smoothcert.engine.pools import Session
from smoothcert.noise import Noise
from smoothcert.procedures import Ask, Conversation, answered
from smoothcert.procedures.certificate import Answered
from smoothcert.stats import Tally

Answer = TypeVar("Answer", bound=Answered)

FLUSH = 4096
"""Blocks whose squares of scores surely fit in 64 bits; then the count goes on in Python's own integers."""
LEAST_PART, PART_STEP = 16, 8  # rows; smaller calls cost more than they save


@dataclass(eq=False)
class InputProgress(Generic[Answer]):
    """One input, the conversation about it, and how far its current request for draws has been answered."""

    row: int  # in the batch of inputs
    x: Tensor  # one input, on the CPU
    noise: Noise
    input_id: str
    conversation: Conversation[Answer]
    ask: Ask = field(init=False)
    tally: Tally | None = None  # what was fetched of the current request
    counts: Tensor | None = None  # (4, C) what was not: votes, score sums, score squares, broken rows; on the device
    missing: int = 0  # draws of the current request that are not counted yet
    unfetched: int = 0  # draws in `counts`
    unsent: deque[tuple[int, int]] = field(default_factory=deque)  # (block, rows to count)
    used: dict[str, int] = field(default_factory=dict)  # blocks used so far, by purpose
    answers: list[tuple[str, Tally]] = field(default_factory=list)  # all so far, for the record
    seed: int | None = None  # of its draws; None: the sampler's

    def request(self, ask: Ask) -> None:
        """Lay out the blocks of a new request. A purpose goes on where it stopped: no draw is ever used twice."""
        first = self.used.get(ask.purpose, 0)
        blocks = -(-ask.n // BLOCK)
        rows = [BLOCK] * (blocks - 1) + [ask.n - BLOCK * (blocks - 1)]
        self.ask, self.tally, self.counts, self.missing, self.unfetched = ask, None, None, ask.n, 0
        self.unsent = deque(enumerate(rows, start=first))
        self.used[ask.purpose] = first + blocks

    def next_piece(self, seed: int) -> Piece:
        """The next block of the current request, as a piece of work."""
        block, rows = self.unsent.popleft()
        seed = seed if self.seed is None else self.seed
        return Piece(self.x, self.input_id, self.noise, seed, self.ask.purpose, self.ask.beta, block, rows)

    def count(self, counts: Tensor, rows: int) -> None:
        """Add the votes of some rows, on the device; fetch them at the end, and before 64 bits might not do."""
        self.counts = counts if self.counts is None else self.counts + counts
        self.missing, self.unfetched = self.missing - rows, self.unfetched + rows
        if not self.missing or self.unfetched >= FLUSH * BLOCK:
            more = _tally(self.counts, self.ask)
            self.tally = more if self.tally is None else self.tally + more
            self.counts, self.unfetched = None, 0


@dataclass(frozen=True)
class Sampler:
    """Holds conversations with a pool. The same votes whatever the workers, the order, what is lost, an interruption.

    Args:
        session: the pool at work on the compiled model.
        seed: of all draws.
        rows_per_call: at most this many rows go through the model at once; whole blocks if it is above one.
        may_split: asked where there are fewer blocks than workers: may blocks be split into calls of so many rows? Only
            where a row gets the same scores, to the last bit, as in a full call.
        member_calls: counts evaluations of an ensemble's members.
    """

    session: Session
    seed: int
    rows_per_call: int
    may_split: Callable[[int], bool] = lambda _: False
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
                if not progress.missing:
                    yield from self._answer(progress, queue.ready)

    def _answer(
        self, progress: InputProgress[Answer], ready: deque[InputProgress[Answer]]
    ) -> Iterator[tuple[InputProgress[Answer], Answer]]:
        assert progress.tally is not None
        progress.answers.append((progress.ask.purpose, answered(progress.ask, progress.tally)))
        try:
            progress.request(progress.conversation.send(progress.tally))
            ready.appendleft(progress)
        except StopIteration as stop:
            yield progress, replace(stop.value, answers=tuple(progress.answers))


Sent = tuple[InputProgress[Any], Piece]


class _Queue(Generic[Answer]):
    """What is to be drawn next: blocks of inputs under way, oldest first; new inputs only when those have nothing."""

    def __init__(self, sampler: Sampler, waiting: Iterator[InputProgress[Answer]]) -> None:
        self._sampler, self._waiting = sampler, waiting
        self.ready: deque[InputProgress[Answer]] = deque()
        self._whole: deque[Sent] = deque()  # looked at already
        self._parts: deque[tuple[Sent, int]] = deque()  # of blocks, and rows per call
        self._sent: dict[int, tuple[Batch, list[Sent]]] = {}

    def next_batch(self, under_way: int) -> Batch | None:
        """Full batches; with fewer blocks than workers, parts of blocks."""
        sampler = self._sampler
        if not under_way and not self._parts and sampler.session.workers > 1:
            self._look_ahead(sampler.session.workers)
        if self._parts:
            sent, rows = self._parts.popleft()
            return self._send([sent], rows)
        several = list(self._take(max(1, sampler.rows_per_call // BLOCK)))
        return self._send(several, sampler.rows_per_call) if several else None

    def take_back(self, work: object, counts: Counts) -> Iterator[tuple[InputProgress[Answer], int, Tensor]]:
        """What a batch came to, by input: the rows, and what they count, (4, C)."""
        _, sent = self._sent.pop(id(work))
        for (progress, piece), found in zip(sent, counts.by_piece, strict=True):
            yield progress, piece.rows, found

    def _send(self, sent: list[Sent], rows_per_call: int) -> Batch:
        batch = Batch(tuple(piece for _, piece in sent), rows_per_call)
        self._sent[id(batch)] = batch, sent
        return batch

    def _look_ahead(self, workers: int) -> None:
        """Nobody is at work: where there are blocks for some of the workers only, split them."""
        self._whole.extend(self._new(workers - len(self._whole)))
        if 0 < len(self._whole) < workers:
            rows = part_rows([piece.rows for _, piece in self._whole], workers)
            if rows < min(BLOCK, self._sampler.rows_per_call) and self._sampler.may_split(rows):
                self._parts.extend((part, rows) for one in self._whole for part in _parts(one, rows))
                self._whole.clear()

    def _take(self, blocks: int) -> Iterator[Sent]:
        for _ in range(min(blocks, len(self._whole))):
            yield self._whole.popleft()
            blocks -= 1
        yield from self._new(blocks)

    def _new(self, blocks: int) -> Iterator[Sent]:
        for _ in range(blocks):
            if not self.ready:
                progress = next(self._waiting, None)
                if progress is None:
                    return
                progress.request(next(progress.conversation))
                self.ready.append(progress)
            progress = self.ready[0]
            piece = progress.next_piece(self._sampler.seed)
            if not progress.unsent:
                self.ready.popleft()
            yield progress, piece


def _parts(sent: Sent, rows: int) -> Iterator[Sent]:
    """A block in parts of so many rows: a row's noise is its own, whoever draws it."""
    progress, piece = sent
    for first in range(0, piece.rows, rows):
        yield progress, replace(piece, first=first, rows=min(rows, piece.rows - first))


def part_rows(blocks: Sequence[int], workers: int) -> int:
    """Rows of a part, so that there are parts for all workers: of few shapes, because each must be looked at before."""
    parts = -(-workers // len(blocks))  # of a block
    rows = -(-max(blocks) // parts)
    return max(LEAST_PART, -(-rows // PART_STEP) * PART_STEP)


def _tally(counts: Tensor, ask: Ask) -> Tally:
    votes, sums, squares, broken = counts.tolist()  # the only fetch from the device
    if broken[0]:
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    return Tally(tuple(votes)) if ask.beta is None else Tally(tuple(votes), tuple(sums), tuple(squares))
