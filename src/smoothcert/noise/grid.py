"""Noise on a grid, drawn exactly: whole numbers k from random bits, with the law of a real noise rounded to the grid.

In float32, x + noise drops bits in a way that shows x: a classifier can tell from a noisy value which input it came
from, and certificates about such a classifier can be false (trap 7 of the field). On a grid nothing is rounded: for x
on the grid, rounding x + noise to the nearest grid point gives x + k h, with k the rounded noise, for every x alike.

k is drawn by inversion of its law with a uniform U in [0, 1) of as many random bits as it takes: k is the number of
thresholds (the law's cumulative probabilities) that are at most U. 16 bits decide almost always, 64 bits nearly all of
the rest, and where 64 do not, more are drawn and compared at the precision that this needs. So the draws have exactly
the law, tails and all, if the bits are ideal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smoothcert.core.randomness import JoinedRows, RowStream
from smoothcert.noise.rows import SCRATCH, Floats, parts

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Whole = NDArray[np.int64]

CELL_BITS = 16
KEY_BITS = 64
REST_BITS = KEY_BITS - CELL_BITS
REST = (1 << REST_BITS) - 1
REST_MASK = np.uint64(REST)
HALF_KEY = 1 << (KEY_BITS - 1)
HALF_CELLS = 1 << (CELL_BITS - 1)
OPEN = 2**23  # above every k, and whole numbers up to 2^24 are exact in float32
MOST_STEPS = 2**18
"""The farthest k that tables are made for: with more, making them would take longer than anybody waits."""


class RoundedLaw(ABC):
    """The law of a symmetric noise rounded to whole numbers k; hashable, because tables are made once for each."""

    @abstractmethod
    def reach(self, bits: int) -> int:
        """K such that U is decided by P(k <= -K), ..., P(k <= K - 1) if its first `bits` bits decide at all.

        That is, |k| is never above K; or P(k <= -K) is below 2^-bits, and so P(k > K - 1) too.
        """

    @abstractmethod
    def tail(self, i: int, bits: int) -> tuple[int, bool]:
        """P(k <= -i) in units of 2^-bits, rounded down, for i >= 1; and whether nothing was lost by rounding."""

    def threshold(self, j: int, bits: int) -> tuple[int, bool]:
        """P(k <= j) in units of 2^-bits, rounded down, and whether that is exact; by symmetry 1 - P(k <= -j - 1)."""
        if j < 0:
            return self.tail(-j, bits)
        rest, exact = self.tail(j + 1, bits)
        return (1 << bits) - rest - (not exact), exact


def resolve(law: RoundedLaw, word: int, bits: int, more: Callable[[], int]) -> int:
    """The k of the U that begins with `bits` bits, the number `word`; `more` gives the next 64, as often as needed."""
    while True:
        reach = law.reach(bits)
        js = range(-reach, reach)
        first = bisect_left(js, word, key=lambda j: law.threshold(j, bits)[0])
        last = bisect_right(js, word, key=lambda j: law.threshold(j, bits)[0])
        # Below `first` thresholds are certainly at most U, from `last` on certainly above it. In between they begin
        # with the same bits: at most U if they have no further ones, else not known yet.
        if all(law.threshold(j, bits)[1] for j in js[first:last]):
            return last - reach
        word, bits = word << KEY_BITS | more(), bits + KEY_BITS


@lru_cache(maxsize=64)
def thresholds(law: RoundedLaw) -> tuple[int, ...]:
    """All thresholds from P(k <= -K) on, in units of 2^-64, rounded down."""
    reach = law.reach(KEY_BITS)
    below = [law.tail(i, KEY_BITS) for i in range(reach, 0, -1)]
    one = 1 << KEY_BITS
    found = [rest for rest, _ in below] + [one - rest - (not exact) for rest, exact in reversed(below)]
    assert all(a <= b for a, b in pairwise([0, *found, one - 1])), f"the thresholds of {law} do not grow from 0 to 1"
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Tables:
    """What draws look up. Keys are the first 64 bits of U, less 2^63, so that signed numbers compare as they should."""

    values: Floats  # (2^16,) k for the first 16 bits, or OPEN + a where they do not decide: the a-th such cell
    below: Floats  # (A,) k below the first threshold in the cell
    least: Whole  # (A,) the least key of the cell
    rest: Whole  # (A,) the 48 bits of the first threshold that follow the cell's 16
    following: Whole  # (A,) and of the second one; 2^48 if there is none
    keys: Whole  # (2K,) all thresholds


@lru_cache(maxsize=64)
def tables(law: RoundedLaw) -> Tables:
    """The tables of a law, made once."""
    keys = np.array([floor - HALF_KEY for floor in thresholds(law)], dtype=np.int64)
    cells = np.arange(-HALF_CELLS, HALF_CELLS, dtype=np.int64) << REST_BITS  # the least key of each
    first = np.searchsorted(keys, cells, side="left")
    last = np.searchsorted(keys, cells + REST, side="right")
    values, open_ = (first - len(keys) // 2).astype(np.float32), np.flatnonzero(first < last)
    below, least, place = first[open_] - len(keys) // 2, cells[open_], first[open_]
    values[open_] = OPEN + np.arange(len(open_))
    second = np.minimum(place + 1, len(keys) - 1)
    following = np.where(place + 1 < last[open_], keys[second] - least, REST + 1)
    return Tables(values, below.astype(np.float32), least, keys[place] - least, following, keys)


@lru_cache(maxsize=64)
def _values_on(law: RoundedLaw, device: torch.device) -> Tensor:
    import torch

    return torch.from_numpy(tables(law).values).to(device)


def draw_steps(law: RoundedLaw, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """`count` independent k, as float32 whole numbers; a function of the generator alone."""
    import torch

    cells = _words(-(-count // 4), generator, device).view(torch.uint16)[:count]
    steps = _values_on(law, device).index_select(0, cells.to(torch.int32))
    open_ = _open_places(steps)
    if len(open_):
        which = steps.index_select(0, open_).cpu().numpy() - np.float32(OPEN)
        rest = _words(len(open_), generator, device).bitwise_and_(REST).cpu().numpy()
        decided = decide(law, which.astype(np.int64), rest, lambda _: _word(generator, device))
        steps.index_copy_(0, open_, torch.from_numpy(decided).to(device))
    return steps


def fill_steps(law: RoundedLaw, stream: RowStream | JoinedRows, first: int, out: Floats) -> None:
    """Independent k into out (rows, d), as float32 whole numbers: row i has those of row `first + i` of the stream.

    The j-th number of a row takes 16 bits of its own; where they do not decide, 48 further ones of the row and the
    number, then 64 for every further turn.
    """
    rows, d = out.shape
    assert out.flags.c_contiguous, "rows are filled in place"
    table = tables(law)
    for part in parts(rows, 2 * d):
        start, steps = first + part.start, out[part]
        cells = SCRATCH.array("cells", steps.size, "p").reshape(steps.shape)
        np.copyto(cells, stream.bits(start, len(steps), 2 * d, SCRATCH).view("<u2")[:, :d])
        # "wrap" only because numpy then writes into `out` at once: no cell is outside of the table.
        np.take(table.values, cells, out=steps, mode="wrap")
        flat = steps.reshape(-1)  # the same memory: `out` is in one piece
        (place,) = (flat >= OPEN).nonzero()
        if len(place):
            row, number = np.divmod(place, d)
            row += start
            which = flat[place].astype(np.intp)
            which -= OPEN
            rest = (stream.further(row, number, 0) & REST_MASK).view(np.int64)
            flat[place] = decide(law, which, rest, _more(stream, row, number))


def _more(stream: RowStream | JoinedRows, rows: Whole, numbers: Whole) -> Callable[[int], int]:
    """The 64 bits that follow, of one of some numbers of some rows, (m,) each; others at every turn."""
    turns: dict[int, int] = {}

    def word(which: int) -> int:
        turns[which] = turns.get(which, 0) + 1
        here = slice(which, which + 1)
        return int(stream.further(rows[here], numbers[here], turns[which])[0])

    return word


def decide(law: RoundedLaw, which: Whole, rest: Whole, more: Callable[[int], int]) -> Floats:
    """k where the first 16 bits of U, of the cells `which`, do not decide: from the next 48 and, if need be, `more`.

    `more` gives the next 64 bits of the i-th of them. Nearly always it matters only on which side of its cell's first
    threshold U is.
    """
    table = tables(law)
    threshold = table.rest[which]
    steps: Floats = table.below[which]
    steps += rest > threshold
    undecided = rest >= table.following[which]
    undecided |= rest == threshold
    (unsure,) = undecided.nonzero()
    if len(unsure):
        key = table.least[which[unsure]] + rest[unsure]
        place = table.keys.searchsorted(key, side="right")
        steps[unsure] = place - len(table.keys) // 2
        # A key that equals a threshold's first 64 bits does not decide: about once in 10^16 draws. (Where no threshold
        # is at most the key, it is compared with the last one, which is above it.)
        for i in (table.keys[place - 1] == key).nonzero()[0].tolist():
            one = int(unsure[i])
            steps[one] = resolve(law, int(key[i]) + HALF_KEY, KEY_BITS, partial(more, one))
    return steps


def _words(count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """64 random bits each."""
    import torch

    return torch.empty(count, dtype=torch.int64, device=device).random_(-HALF_KEY, None, generator=generator)


def _word(generator: torch.Generator, device: torch.device) -> int:
    return int(_words(1, generator, device)) + HALF_KEY


def _open_places(steps: Tensor) -> Tensor:
    """Where 16 bits did not decide; numpy finds the places ten times faster on a CPU."""
    import torch

    if steps.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(steps.numpy() >= OPEN))
    return (steps >= OPEN).nonzero().flatten()
