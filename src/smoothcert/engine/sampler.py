"""Draws of many inputs become full batches become votes.

Draws come in blocks of 128; what noise a block has depends on its name alone (`noise.streams`). One conversation per
input says how many draws it wants; whoever is decided leaves, and others fill the batch. Votes are counted on the
device and fetched once per wish, so memory does not grow with the number of draws.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from smoothcert.certify import Ask, Conversation
from smoothcert.engine.classifier import Model, score
from smoothcert.errors import InputError
from smoothcert.noise import Noise
from smoothcert.noise.streams import BLOCK, generator
from smoothcert.stats import Tally
from smoothcert.stats.tally import SCORE_UNIT

Answer = TypeVar("Answer")


@dataclass
class Talk(Generic[Answer]):
    """One input, the conversation about it, and how far the current wish has been answered."""

    key: int
    x: Tensor  # one input, on the device
    noise: Noise
    input_id: str
    conversation: Conversation[Answer]
    ask: Ask = field(init=False)
    counts: Tensor | None = None  # (3, C) votes, score sums, score squares, on the device
    missing: int = 0  # blocks of the current wish that are not counted yet
    unsent: deque[tuple[int, int]] = field(default_factory=deque)  # (block, rows to count)
    used: dict[str, int] = field(default_factory=dict)  # blocks used so far, by purpose

    def wish(self, ask: Ask) -> None:
        """Lay out the blocks of a new wish. A purpose goes on where it stopped: no draw is ever used twice."""
        first = self.used.get(ask.purpose, 0)
        blocks = -(-ask.n // BLOCK)
        rows = [BLOCK] * (blocks - 1) + [ask.n - BLOCK * (blocks - 1)]
        self.ask, self.counts, self.missing = ask, None, blocks
        self.unsent = deque(enumerate(rows, start=first))
        self.used[ask.purpose] = first + blocks


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

    model: Model
    num_classes: int
    seed: int
    device: torch.device
    blocks_per_batch: int
    rows_per_call: int  # at most this many rows go through the model at once
    workers: int

    def run(
        self, talks: Iterable[Talk[Answer]], on_draws: Callable[[int], None]
    ) -> Iterator[tuple[Talk[Answer], Answer]]:
        """Hold all conversations; yield each answer as soon as it is there."""
        waiting, ready = iter(talks), deque[Talk[Answer]]()
        with _pool(self.workers) as pool:
            flying: dict[Future[Tensor], list[Piece]] = {}
            while True:
                while len(flying) <= self.workers and (pieces := self._next_batch(waiting, ready)):
                    flying[pool.submit(self._evaluate, pieces)] = pieces
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
        talk.counts = counts if talk.counts is None else talk.counts + counts
        talk.missing -= 1
        if talk.missing:
            return
        try:
            talk.wish(talk.conversation.send(_tally(talk.counts, piece.ask)))
            ready.appendleft(talk)
        except StopIteration as stop:
            yield talk, stop.value

    @torch.inference_mode()
    def _evaluate(self, pieces: list[Piece]) -> Tensor:
        """Draw, run, count: (pieces, 4, C), the last row holding the number of rows that were not finite."""
        noisy = [self._draw(piece) for piece in pieces]
        batch = noisy[0] if len(noisy) == 1 else torch.cat(noisy)  # (pieces * BLOCK, ...)
        chunks = [score(self.model, chunk, self.num_classes) for chunk in torch.split(batch, self.rows_per_call)]
        scores = chunks[0] if len(chunks) == 1 else torch.cat(chunks)
        return torch.stack(
            [
                _counts(part[: piece.rows], piece.ask)
                for piece, part in zip(pieces, torch.split(scores, BLOCK), strict=True)
            ]
        )

    def _draw(self, piece: Piece) -> Tensor:
        talk = piece.talk
        stream = generator(self.seed, talk.input_id, piece.ask.purpose, piece.block, self.device)
        return talk.noise.draw(talk.x.expand(BLOCK, *talk.x.shape), stream)  # (BLOCK, ...)


def _counts(scores: Tensor, ask: Ask) -> Tensor:
    """Votes, score sums and squares, and the rows that are not finite, of one block: (4, C) whole numbers."""
    rows, classes = scores.shape
    counts = torch.zeros(4, classes, dtype=torch.int64, device=scores.device)
    ones = torch.ones(rows, dtype=torch.int64, device=scores.device)
    counts[0].index_add_(0, scores.argmax(dim=1), ones)
    if ask.beta is not None:
        units = (torch.softmax(ask.beta * scores.double(), dim=1) / SCORE_UNIT).floor().long()  # (rows, C)
        counts[1], counts[2] = units.sum(dim=0), units.square().sum(dim=0)
    counts[3] = (~torch.isfinite(scores)).sum()
    return counts


def _tally(counts: Tensor, ask: Ask) -> Tally:
    votes, sums, squares, broken = counts.tolist()  # the only fetch from the device per wish
    if broken[0]:
        raise InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
    return Tally(tuple(votes)) if ask.beta is None else Tally(tuple(votes), tuple(sums), tuple(squares))


class _Inline(Executor):
    """One worker is this thread: nothing runs where the caller does not expect it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """Threads that each use one core, for models on the CPU: better than one model spread over all cores."""
    if workers == 1:
        yield _Inline()
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(threads)


def default_workers(model: Model, device: torch.device) -> int:
    """One per core for a module on the CPU; one for anything else: only modules are known to be safe in threads."""
    if device.type != "cpu" or not isinstance(model, torch.nn.Module):
        return 1
    return max(1, min(torch.get_num_threads(), os.cpu_count() or 1))
