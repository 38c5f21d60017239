"""Draws of many inputs become full batches become votes.

Draws come in blocks of 128; what noise a block has depends on its name alone (`noise.streams`). One conversation per
input says how many draws it wants; whoever is decided leaves, and others fill the batch. Votes are counted on the
device and fetched once per wish, so memory does not grow with the number of draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from smoothcert.architectures.modules import Model
from smoothcert.certify import Ask, Conversation, answered
from smoothcert.certify.certificate import Answered
from smoothcert.engine.classifier import score
from smoothcert.engine.workers import Workers
from smoothcert.errors import InputError
from smoothcert.noise import Noise
from smoothcert.noise.streams import BLOCK, generator
from smoothcert.stats import Tally
from smoothcert.stats.tally import SCORE_UNIT

Answer = TypeVar("Answer", bound=Answered)


FLUSH = 4096
"""Blocks whose squares of scores surely fit in 64 bits; then the count goes on in Python's own integers."""


@dataclass
class Talk(Generic[Answer]):
    """One input, the conversation about it, and how far the current wish has been answered."""

    key: int
    x: Tensor  # one input, on the device
    noise: Noise
    input_id: str
    conversation: Conversation[Answer]
    ask: Ask = field(init=False)
    tally: Tally | None = None  # what was fetched of the current wish
    counts: Tensor | None = None  # (4, C) what was not: votes, score sums, score squares, broken rows; on the device
    missing: int = 0  # blocks of the current wish that are not counted yet
    unsent: deque[tuple[int, int]] = field(default_factory=deque)  # (block, rows to count)
    used: dict[str, int] = field(default_factory=dict)  # blocks used so far, by purpose
    said: list[tuple[str, Tally]] = field(default_factory=list)  # all answers so far, for the record

    def wish(self, ask: Ask) -> None:
        """Lay out the blocks of a new wish. A purpose goes on where it stopped: no draw is ever used twice."""
        first = self.used.get(ask.purpose, 0)
        blocks = -(-ask.n // BLOCK)
        rows = [BLOCK] * (blocks - 1) + [ask.n - BLOCK * (blocks - 1)]
        self.ask, self.tally, self.counts, self.missing = ask, None, None, blocks
        self.unsent = deque(enumerate(rows, start=first))
        self.used[ask.purpose] = first + blocks

    def count(self, counts: Tensor) -> None:
        """Add the votes of one block, on the device; fetch them at the end, and before 64 bits might not do."""
        self.counts = counts if self.counts is None else self.counts + counts
        self.missing -= 1
        if self.missing % FLUSH == 0:
            more = _tally(self.counts, self.ask)
            self.tally, self.counts = more if self.tally is None else self.tally + more, None


@dataclass(frozen=True)
class Piece:
    """One block of one talk: the smallest unit of work."""

    talk: Talk[Any]
    ask: Ask
    block: int
    rows: int


@dataclass(frozen=True)
class Sampler:
    """Runs conversations against a model. The same votes whatever the workers, the order, or an interruption."""

    workers: Workers  # each with a runner of its own: a module may keep something on itself while it runs
    num_classes: int
    seed: int
    device: torch.device
    blocks_per_batch: int
    rows_per_call: int  # at most this many rows go through the model at once

    def run(
        self, talks: Iterable[Talk[Answer]], on_draws: Callable[[int], None]
    ) -> Iterator[tuple[Talk[Answer], Answer]]:
        """Hold all conversations; yield each answer as soon as it is there."""
        waiting, ready = iter(talks), deque[Talk[Answer]]()
        with self.workers.working() as submit:
            flying: dict[Future[Tensor], list[Piece]] = {}
            while True:
                while len(flying) <= self.workers.count and (pieces := self._next_batch(waiting, ready)):
                    flying[submit(self._evaluate, pieces)] = pieces
                if not flying:
                    return
                done, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in done:
                    for piece, counts in zip(flying.pop(future), future.result(), strict=True):
                        on_draws(piece.rows)
                        yield from self._count(piece, counts, ready)

    def _next_batch(self, waiting: Iterator[Talk[Answer]], ready: deque[Talk[Answer]]) -> list[Piece]:
        """Blocks from inputs under way, oldest first; new inputs only when those have nothing to run."""
        pieces: list[Piece] = []
        while len(pieces) < self.blocks_per_batch:
            if not ready:
                talk = next(waiting, None)
                if talk is None:
                    break
                talk.wish(next(talk.conversation))
                ready.append(talk)
            talk = ready[0]
            pieces.append(Piece(talk, talk.ask, *talk.unsent.popleft()))
            if not talk.unsent:
                ready.popleft()
        return pieces

    def _count(self, piece: Piece, counts: Tensor, ready: deque[Talk[Answer]]) -> Iterator[tuple[Talk[Answer], Answer]]:
        talk = piece.talk
        talk.count(counts)
        if talk.missing:
            return
        assert talk.tally is not None
        talk.said.append((piece.ask.purpose, answered(piece.ask, talk.tally)))
        try:
            talk.wish(talk.conversation.send(talk.tally))
            ready.appendleft(talk)
        except StopIteration as stop:
            yield talk, replace(stop.value, answers=tuple(talk.said))

    @torch.inference_mode()
    def _evaluate(self, model: Model, pieces: list[Piece]) -> Tensor:
        """Draw, run, count: (pieces, 4, C)."""
        # The caller's autocast would reach only some threads; a model in another precision says so by itself.
        with torch.autocast(self.device.type, enabled=False):
            noisy = [self._draw(piece) for piece in pieces]
            batch = noisy[0] if len(noisy) == 1 else torch.cat(noisy)  # (rows of all pieces, ...)
            chunks = [score(model, chunk, self.num_classes) for chunk in torch.split(batch, self.rows_per_call)]
            scores = chunks[0] if len(chunks) == 1 else torch.cat(chunks)
            parts = zip(pieces, torch.split(scores, [piece.rows for piece in pieces]), strict=True)
            return torch.stack([_counts(part, piece.ask) for piece, part in parts])

    def _draw(self, piece: Piece) -> Tensor:
        """The noisy rows of a piece. Noise is drawn for the whole block, so that a row's noise is its own for ever."""
        talk = piece.talk
        stream = generator(self.seed, talk.input_id, piece.ask.purpose, piece.block, self.device)
        return talk.noise.draw(talk.x.expand(BLOCK, *talk.x.shape), stream)[: piece.rows]  # (rows, ...)


def _counts(scores: Tensor, ask: Ask) -> Tensor:
    """Votes, score sums and squares, and the number of broken entries, of one block: (4, C) whole numbers."""
    rows, classes = scores.shape
    counts = torch.zeros(4, classes, dtype=torch.int64, device=scores.device)
    counts[0].index_add_(0, scores.argmax(dim=1), torch.ones(rows, dtype=torch.int64, device=scores.device))
    broken = ~torch.isfinite(scores)
    if ask.beta is not None:
        logits = scores.double()
        shares = torch.softmax(ask.beta * (logits - logits.amax(dim=1, keepdim=True)), dim=1)
        broken = broken | ~torch.isfinite(shares)
        units = (shares / SCORE_UNIT).floor().long()  # (rows, C)
        counts[1], counts[2] = units.sum(dim=0), units.square().sum(dim=0)
    counts[3] = broken.sum()
    return counts


def _tally(counts: Tensor, ask: Ask) -> Tally:
    votes, sums, squares, broken = counts.tolist()  # the only fetch from the device
    if broken[0]:
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    return Tally(tuple(votes)) if ask.beta is None else Tally(tuple(votes), tuple(sums), tuple(squares))
