"""The unit of work that pools carry: some draws of one input, and what they add up to.

A piece is self-contained: whoever holds the compiled model can evaluate it, here or on another machine, now or a second
time, and gets the same votes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.randomness import JoinedRows, RowStream
from smoothcert.engine.backends.base import in_calls_of
from smoothcert.engine.backends.ensemble import EnsembleRunner
from smoothcert.engine.classifier import score
from smoothcert.engine.model_errors import naming_batch_size
from smoothcert.noise import Noise
from smoothcert.stats.tally import SCORE_UNIT

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Piece:
    """Draws number `first` to `first + rows` of one input for one purpose.

    Args:
        x: one input, (...), on the CPU.
        input_id: its name, which decides its noise.
        noise: what is added.
        seed: of the smoothed classifier.
        purpose: what the draws are for; purposes never share a draw.
        inverse_temperature: of the softmax, if scores are wanted beside the votes.
        first: which draw comes first, among those of its input and purpose.
        rows: how many draws.
        weights: of an ensemble's members, where they are the input's own. Such a piece goes alone.
        ahead: whether nobody asked for these draws yet, so that the vote of each is wanted by itself.
    """

    x: Tensor
    input_id: str
    noise: Noise
    seed: int
    purpose: str
    inverse_temperature: float | None
    first: int
    rows: int
    weights: tuple[float, ...] | None = None
    ahead: bool = False

    @property
    def stream(self) -> RowStream:
        """Where its noise comes from. A draw's noise is its own, whatever is drawn beside it."""
        return RowStream(self.seed, self.input_id, self.purpose)


@dataclass(frozen=True, eq=False)
class Counts:
    """What a batch came to.

    Args:
        votes: (pieces, C); of several classifiers, one after another, (pieces, J * C).
        scores: (pieces, 2, C) sums and sums of squares, in units; None where no piece wants them.
        answers: (rows of all pieces,) the class that each draw votes for; None where no piece is `ahead`.
        member_calls: of an ensemble, how many noisy inputs each member was asked about.
        seconds: that it took.
    """

    votes: Whole
    scores: Whole | None = None
    answers: Whole | None = None
    member_calls: tuple[int, ...] = ()
    seconds: float = math.inf


@dataclass(frozen=True, eq=False)
class Batch:
    """Pieces that go through the model together, in calls of at most `rows_per_call` rows."""

    pieces: tuple[Piece, ...]
    rows_per_call: int

    @property
    def rows(self) -> int:
        """Of all pieces."""
        return sum(piece.rows for piece in self.pieces)

    @torch.inference_mode()
    def run(self, compiled: Compiled, runner: Model) -> Counts:
        """Draw, run, count."""
        begin = time.perf_counter()
        device, classes = compiled.device, compiled.num_classes
        before = getattr(runner, "member_calls", ())[:]
        # What is not padded takes any number of rows; members of an adaptive ensemble keep their own shape in it.
        same = self.rows_per_call == compiled.rows or not compiled.padded
        sized = runner if same else in_calls_of(runner, self.rows_per_call)
        assert sized is not None, "a shape in which the model cannot be run was asked for"
        if (own := self.pieces[0].weights) is not None:
            assert len(self.pieces) == 1, "draws with weights of their own share no call"
            assert isinstance(sized, EnsembleRunner)
            sized = sized.with_weights(own)
        # The caller's autocast would reach only some threads; a model in another precision says so by itself.
        plain = torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()
        with plain, naming_batch_size(self.rows_per_call, compiled.shape):
            noisy = self._draw(device)
            if len(noisy) <= self.rows_per_call:
                scores = score(sized, noisy, classes)
            else:
                scores = torch.cat([score(sized, part, classes) for part in torch.split(noisy, self.rows_per_call)])
        after = getattr(runner, "member_calls", ())
        calls = tuple(b - a for a, b in zip(before, after, strict=True))
        counted = count(scores, self.pieces, compiled.classifiers)
        return Counts(*counted, calls, time.perf_counter() - begin)

    def _draw(self, device: torch.device) -> Tensor:
        """The noisy inputs of all pieces, (rows of all, ...)."""
        noisy, end = torch.empty(self.rows, *self.pieces[0].x.shape, device=device), 0
        for noise, alike in groupby(self.pieces, key=attrgetter("noise")):
            pieces = list(alike)
            begin, end = end, end + sum(piece.rows for piece in pieces)
            xs = [piece.x.to(device) for piece in pieces]
            if len(pieces) == 1:
                noise.draw_rows(xs[0], pieces[0].stream, pieces[0].first, noisy[begin:end])
            else:
                rows = JoinedRows(tuple((piece.stream, piece.first, piece.rows) for piece in pieces))
                noise.draw_together(xs, rows, noisy[begin:end])
        return noisy


def count(scores: Tensor, pieces: Sequence[Piece], classifiers: int = 1) -> tuple[Whole, Whole | None, Whole | None]:
    """Votes, sums of scores and single votes, where they are wanted: scores (rows of all pieces, C) are fetched once.

    Of several classifiers scores are (rows of all pieces, J * C), and each has a vote for every row.

    On the CPU by numpy: threads of torch would wait for each other longer than it takes.
    """
    found: NDArray[Any] = scores.cpu().numpy() if scores.dtype != torch.bfloat16 else scores.float().cpu().numpy()
    width, sizes = found.shape[1], [piece.rows for piece in pieces]
    if not np.isfinite(found).all():
        raise _broken()
    answers = found.reshape(len(found), classifiers, -1).argmax(axis=2)  # (rows of all, J)
    single = answers[:, 0].copy() if any(piece.ahead for piece in pieces) else None
    if classifiers > 1:
        answers += np.arange(0, width, width // classifiers)
    if len(sizes) > 1:
        answers += np.repeat(np.arange(0, len(sizes) * width, width), sizes)[:, None]
    votes = np.bincount(answers.ravel(), minlength=len(sizes) * width).reshape(len(sizes), width)
    if all(piece.inverse_temperature is None for piece in pieces):
        return votes, None, single
    soft = np.zeros((len(sizes), 2, width), dtype=np.int64)
    for number, (piece, part) in enumerate(zip(pieces, torch.split(scores, sizes), strict=True)):
        if piece.inverse_temperature is not None:
            own = torch.split(part, width // classifiers, dim=1)
            soft[number] = np.concatenate([_soft(one, piece.inverse_temperature) for one in own], axis=1)
    return votes, soft, single


def _soft(scores: Tensor, inverse_temperature: float) -> Whole:
    """Sums and sums of squares of the shares of classes, in units, (2, C)."""
    logits = scores.double()
    shares = torch.softmax(inverse_temperature * (logits - logits.amax(dim=1, keepdim=True)), dim=1)
    if not bool(torch.isfinite(shares).all()):
        raise _broken()
    units = (shares / SCORE_UNIT).floor().long()  # (rows, C)
    sums: Whole = torch.stack([units.sum(dim=0), units.square().sum(dim=0)]).cpu().numpy()
    return sums


def _broken() -> InputError:
    return InputError("model gives scores that are not finite (NaN or infinite); smoothing needs finite scores")
