"""A search in one dimension for the strength with the largest radius: no gradients, few evaluations.

Three things make it cheap. All strengths are tried on the same draws, so that what differs between them is not luck.
How often the class wins is estimated from votes and margins together: 64 equal votes alone do not tell how sure they
are. And what is compared is the radius that a certificate of n draws is expected to show: the soft radius goes on
growing where no number of votes can follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.engine.sigma.base import SEARCHES, OneByOne, WithinSpan, scores_at, stream_of
from smoothcert.engine.sigma.strength_steps import PER_OCTAVE, nearest, strength
from smoothcert.noise import Noise
from smoothcert.noise.ascent import unit_draws
from smoothcert.procedures.conversation import check_draws, check_level

TAIL = 0.16
"""Of the votes' confidence interval, on each side: one standard deviation, as of a normal law."""

ROUNDING = 1e-9
"""Of 2^(k/8), relative, on another machine."""

Value = tuple[float, float]
"""What a strength is worth: the expected radius and, where all are 0, the bound that is nearest to any."""


@SEARCHES.add
@dataclass(frozen=True)
class Bracket(WithinSpan, OneByOne):
    """The strength whose certificate of `n` draws at level `alpha` is expected to show the largest radius.

    First sigma_0 and four strengths around it that reach both ends of the span; then, again and again, the two half as
    far from the best one, down to a step of the lattice 2^(k/8) where it ends: 11 in all for a span of 4. Fewer `steps`
    stop it early. For any classifier, also one without gradients or with a noise that has no soft radius.
    """

    name: ClassVar[str] = "bracket"
    steps: int = 11
    draws: int = 64
    n: int = 100_000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        check_draws("n of bracket", self.n)
        check_level("alpha of bracket", self.alpha)

    @property
    def evaluations(self) -> int:
        """Those at sigma_0 choose the class, too."""
        return self.steps * self.draws

    @property
    def _reach(self) -> int:
        """How many steps of the lattice the span allows, each way."""
        return math.floor(PER_OCTAVE * math.log2(self.span))

    def can_end(self, found: float, start: float) -> bool:
        """At 2^(k/8), not farther from where it starts than its span and a step."""
        k = nearest(found)
        near = abs(k - PER_OCTAVE * math.log2(start)) < PER_OCTAVE * math.log2(self.span) + 1
        return near and math.isclose(found, strength(k), rel_tol=ROUNDING)

    @torch.inference_mode()
    def find(self, model: Model, x: Tensor, noise: Noise, seed: int) -> float:
        """The best of the strengths that were looked at."""
        units = unit_draws(noise, x, self.draws, stream_of(seed, x))
        label: int | None = None

        def look(ks: Sequence[int]) -> list[Value]:
            nonlocal label
            each = torch.tensor([strength(k) for k in ks], dtype=torch.float64).repeat_interleave(self.draws)
            rows = scores_at(model, x, torch.cat([units] * len(ks)), each)
            scores = rows.reshape(len(ks), self.draws, -1)  # (k, m, C)
            if label is None:  # the first is sigma_0
                label = int(np.bincount(scores[0].argmax(axis=1)).argmax())
            return [self._value(noise.with_strength(strength(k)), s, label) for k, s in zip(ks, scores, strict=True)]

        return strength(best_of(nearest(noise.strength), self._reach, self.steps, look))

    def _value(self, noise: Noise, scores: np.ndarray[Any, Any], label: int) -> Value:
        margins = scores[:, label] - np.delete(scores, label, axis=1).max(axis=1)
        votes = int((scores.argmax(axis=1) == label).sum())
        deviation = float(margins.std(ddof=1)) if len(margins) > 1 else 0.0
        p = win_rate(votes, len(margins), float(margins.mean()), deviation)
        lower = float(stats.beta.ppf(self.alpha, self.n * p, self.n * (1 - p) + 1)) if p > 0 else 0.0
        return noise.radius(lower), lower


def win_rate(votes: int, draws: int, mean: float, deviation: float) -> float:
    """How often a class wins that had so many of the draws, and margins with this mean and standard deviation.

    Normal margins make it Phi(mean / deviation). They need not be normal (of a classifier that answers 0 or 1 they are
    not), so that is believed as far as the votes allow: within their confidence interval.
    """
    low = stats.beta.ppf(TAIL, votes, draws - votes + 1) if votes else 0.0
    high = stats.beta.isf(TAIL, votes + 1, draws - votes) if votes < draws else 1.0
    ratio = mean / deviation if deviation > 0 else math.copysign(math.inf, mean)
    return min(max(float(special.ndtr(ratio)), float(low)), float(high))


def best_of(center: int, reach: int, steps: int, look: Callable[[Sequence[int]], Sequence[Value]]) -> int:
    """The best of the whole numbers within `reach` of `center`, for values with one hill; `look` is asked for few.

    At most `steps` are looked at, the center first. Of equal ones the nearest to the center is best.
    """
    gap = 1
    while 2 * gap < reach:
        gap *= 2
    seen: dict[int, Value] = {}

    def see(*asked: int) -> int:
        inside = dict.fromkeys(min(max(k, center - reach), center + reach) for k in asked)  # a set in order
        new = [k for k in inside if k not in seen][: steps - len(seen)]
        if new:
            seen.update(zip(new, look(new), strict=True))
        return max(seen, key=lambda k: (seen[k], -abs(k - center), -k))

    best = see(center, center - gap, center + gap, center - 2 * gap, center + 2 * gap)
    while gap > 1 and len(seen) < steps:
        gap //= 2
        best = see(best - gap, best + gap)
    return best
