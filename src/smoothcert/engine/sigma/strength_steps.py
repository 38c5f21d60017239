"""The strengths that our search for an input's own noise may end at: 2^(k/8). The paper's searches have no lattice.

Every strength on the grid of 8-bit images needs tables, which take a good part of a second. On this lattice thousands
of inputs share the tables of a few dozen strengths. A chosen strength is at most 4.4% from the best one, where the
radius is flat.
"""

from __future__ import annotations

import math

PER_OCTAVE = 8


def strength(k: int) -> float:
    """The k-th strength."""
    return float(2.0 ** (k / PER_OCTAVE))


def nearest(value: float) -> int:
    """The k of the strength that is nearest to `value`, by ratio."""
    return round(PER_OCTAVE * math.log2(value))
