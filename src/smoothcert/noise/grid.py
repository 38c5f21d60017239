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
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

CELL_BITS = 16
KEY_BITS = 64
REST_BITS = KEY_BITS - CELL_BITS
REST = (1 << REST_BITS) - 1
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


@dataclass(frozen=True)
class Tables:
    """What draws look up. Keys are the first 64 bits of U, less 2^63, so that signed numbers compare as they should."""

    values: Tensor  # (2^16,) k for the first 16 bits, or OPEN + a where they do not decide: the a-th such cell
    below: Tensor  # (A,) k below the first threshold in the cell
    least: Tensor  # (A,) the least key of the cell
    rest: Tensor  # (A,) the 48 bits of the first threshold that follow the cell's 16
    following: Tensor  # (A,) and of the second one; 2^48 if there is none
    keys: Tensor  # (2K,) all thresholds


@lru_cache(maxsize=64)
def tables(law: RoundedLaw, device: torch.device) -> Tables:
    """The tables of a law, made once."""
    import torch

    keys = np.array([floor - HALF_KEY for floor in thresholds(law)], dtype=np.int64)
    cells = np.arange(-HALF_CELLS, HALF_CELLS, dtype=np.int64) << REST_BITS  # the least key of each
    first = np.searchsorted(keys, cells, side="left")
    last = np.searchsorted(keys, cells + REST, side="right")
    values, open_ = (first - len(keys) // 2).astype(np.float32), np.flatnonzero(first < last)
    below, least, place = first[open_] - len(keys) // 2, cells[open_], first[open_]
    values[open_] = OPEN + np.arange(len(open_))
    second = np.minimum(place + 1, len(keys) - 1)
    following = np.where(place + 1 < last[open_], keys[second] - least, REST + 1)
    found = (values, below.astype(np.float32), least, keys[place] - least, following, keys)
    return Tables(*(torch.from_numpy(array).to(device) for array in found))


def draw_steps(law: RoundedLaw, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """`count` independent k, as float32 whole numbers; a function of the generator alone."""
    import torch

    table = tables(law, device)
    cells = _words(-(-count // 4), generator, device).view(torch.uint16)[:count]
    steps = table.values.index_select(0, cells.to(torch.int32))
    open_ = _places(steps, OPEN)
    if len(open_):
        which = steps.index_select(0, open_).sub_(OPEN).long()
        rest = _words(len(open_), generator, device).bitwise_and_(REST)
        steps.index_copy_(0, open_, finish(law, table, which, rest, lambda: _word(generator, device)))
    return steps


def finish(law: RoundedLaw, table: Tables, which: Tensor, rest: Tensor, more: Callable[[], int]) -> Tensor:
    """k where the first 16 bits of U, of the cells `which`, do not decide: from the next 48 and, if need be, `more`.

    Nearly always it matters only on which side of its cell's first threshold U is.
    """
    import torch

    threshold = table.rest.index_select(0, which)
    steps = table.below.index_select(0, which).add_(rest > threshold)
    unsure = _places((rest == threshold).logical_or_(rest >= table.following.index_select(0, which)), 1)
    if len(unsure):
        key = table.least[which[unsure]] + rest[unsure]
        place = torch.searchsorted(table.keys, key, right=True)
        found = (place - len(table.keys) // 2).tolist()
        # A key that equals a threshold's first 64 bits does not decide: about once in 10^16 draws.
        for i in (table.keys[(place - 1).clamp_min(0)] == key).nonzero().flatten().tolist():
            found[i] = resolve(law, int(key[i]) + HALF_KEY, KEY_BITS, more)
        steps[unsure] = torch.tensor(found, dtype=torch.float32, device=steps.device)
    return steps


def _words(count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """64 random bits each."""
    import torch

    return torch.empty(count, dtype=torch.int64, device=device).random_(-HALF_KEY, None, generator=generator)


def _word(generator: torch.Generator, device: torch.device) -> int:
    return int(_words(1, generator, device)) + HALF_KEY


def _places(values: Tensor, least: float) -> Tensor:
    """Where values are at least `least`; numpy finds the places ten times faster on a CPU."""
    import torch

    if values.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(values.numpy() >= least))
    return (values >= least).nonzero().flatten()
