"""The strengths that inputs may have: 2^(k/8).

Every strength on the grid of 8-bit images needs tables, which take 0.1 to 0.7 seconds (Gaussian, sigma 0.12 to 1) and
0.3 MB. On this lattice thousands of inputs share the tables of a few dozen strengths. A chosen strength is at most 4.4%
from the best one, where the radius is flat: on MNIST that costs 0.4% of the radius (a LeNet trained at sigma 0.25, 20
images; 1.3% with 4 strengths per octave, 0.15% with 16, at twice as many tables).
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
