"""The unit of work that pools carry: some rows of one block of draws of one input, and what they add up to.

A piece is self-contained: whoever holds the compiled model can evaluate it, here or on another machine, now or a second
time, and gets the same votes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK, generator
from smoothcert.engine.backends.base import in_calls_of
from smoothcert.engine.classifier import score
from smoothcert.engine.model_errors import naming_batch_size
from smoothcert.noise import Noise
from smoothcert.stats.tally import SCORE_UNIT

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled


@dataclass(frozen=True, eq=False)
class Piece:
    """Draws `first` to `first + rows` of one block.

    Args:
        x: one input, (...), on the CPU.
        input_id: its name, which decides its noise.
        noise: what is added.
        seed: of the smoothed classifier.
        purpose: what the draws are for; purposes never share a draw.
        inverse_temperature: of the softmax, if scores are wanted beside the votes.
        block: number of the block among those of its input and purpose.
        rows: how many draws of the block.
        first: which of them comes first.
    """

    x: Tensor
    input_id: str
    noise: Noise
    seed: int
    purpose: str
    inverse_temperature: float | None
    block: int
    rows: int
    first: int = 0

    def draw(self, device: torch.device) -> Tensor:
        """The noisy inputs, (rows, ...). Noise is drawn for the whole block, so that a row's noise is its own."""
        stream = generator(self.seed, self.input_id, self.purpose, self.block, device)
        x = self.x.to(device)
        return self.noise.draw(x.expand(BLOCK, *x.shape), stream)[self.first : self.first + self.rows]


@dataclass(frozen=True, eq=False)
class Counts:
    """What a batch came to.

    Args:
        by_piece: (pieces, 4, C) whole numbers: votes, score sums, score squares, and broken scores; on the device.
        member_calls: of an ensemble, how many noisy inputs each member was asked about.
    """

    by_piece: Tensor
    member_calls: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Batch:
    """Pieces that go through the model together, `rows_per_call` rows at a time."""

    pieces: tuple[Piece, ...]
    rows_per_call: int

    @torch.inference_mode()
    def run(self, compiled: Compiled, runner: Model) -> Counts:
        """Draw, run, count."""
        device, classes = compiled.device, compiled.num_classes
        before = getattr(runner, "member_calls", ())[:]
        sized = runner if self.rows_per_call == compiled.rows else in_calls_of(runner, self.rows_per_call)
        assert sized is not None, "a shape in which the model cannot be run was asked for"
        # The caller's autocast would reach only some threads; a model in another precision says so by itself.
        with torch.autocast(device.type, enabled=False), naming_batch_size(self.rows_per_call, compiled.shape):
            noisy = [piece.draw(device) for piece in self.pieces]
            batch = noisy[0] if len(noisy) == 1 else torch.cat(noisy)  # (rows of all pieces, ...)
            chunks = [score(sized, chunk, classes) for chunk in torch.split(batch, self.rows_per_call)]
            scores = chunks[0] if len(chunks) == 1 else torch.cat(chunks)
            parts = zip(self.pieces, torch.split(scores, [piece.rows for piece in self.pieces]), strict=True)
            counts = torch.stack([_counts(part, piece.inverse_temperature) for piece, part in parts])
        after = getattr(runner, "member_calls", ())
        return Counts(counts, tuple(b - a for a, b in zip(before, after, strict=True)))


def _counts(scores: Tensor, inverse_temperature: float | None) -> Tensor:
    """Votes, score sums and squares, and the number of broken entries, of one piece: (4, C) whole numbers."""
    rows, classes = scores.shape
    counts = torch.zeros(4, classes, dtype=torch.int64, device=scores.device)
    counts[0].index_add_(0, scores.argmax(dim=1), torch.ones(rows, dtype=torch.int64, device=scores.device))
    broken = ~torch.isfinite(scores)
    if inverse_temperature is not None:
        logits = scores.double()
        shares = torch.softmax(inverse_temperature * (logits - logits.amax(dim=1, keepdim=True)), dim=1)
        broken = broken | ~torch.isfinite(shares)
        units = (shares / SCORE_UNIT).floor().long()  # (rows, C)
        counts[1], counts[2] = units.sum(dim=0), units.square().sum(dim=0)
    counts[3] = broken.sum()
    return counts
