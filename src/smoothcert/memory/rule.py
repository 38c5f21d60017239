"""The rule for certified regions: what a new certificate may claim beside those that are stored.

With a noise (or weights) of its own at every input, the smoothed classifier is another function at every input, and a
ball certified at x says nothing about the answer at a neighbour x'. A memory repairs it (Alfarra et al. 2022, "Data
dependent randomized smoothing", section 3.3): certified balls are kept, and whoever is asked inside one answers with
its class. That is one classifier, and it is robust inside every ball by construction, if no two balls of different
classes overlap. Their algorithm 2, corrected: abstentions are never stored, and an answer from inside a ball has the
radius that is left of that ball.

**Invariant.** For stored balls i, j of different classes: R_i + R_j <= ||x_i - x_j||, so that the open balls are
disjoint, and a query lies in balls of at most one class.

**Rounding.** A computed distance d is within a factor 1 +- t/2 of the true one, D (`distance.tolerance`). A ball is cut
at (1 - 4t) d, rounded down, so R_i + R_j <= (1 - 3t) D: more than the rounding of any later computation. A query counts
as inside where (1 - t) d < R: everything that is truly inside does, and so may a point that lies on the boundary but
for rounding, which harms nobody: claims are of open balls, and no query counts as inside of two classes, because then
D <= D_i + D_j < (1 + 2t) (R_i + R_j) < D. What is left of a ball, R - (1 + t) d, is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from smoothcert.core.errors import InputError
from smoothcert.procedures import ABSTAIN


@dataclass(frozen=True)
class Neighbour:
    """A stored region near x: the open ball of `radius` around its centre, which is `distance` away from x."""

    region: int
    label: int
    radius: float
    distance: float  # as computed: the true one lies within a factor of 1 +- tolerance / 2
    tolerance: float  # t

    @property
    def inside(self) -> bool:
        """Whether x is in the region: for sure where it truly is."""
        return (1 - self.tolerance) * self.distance < self.radius

    @property
    def left(self) -> float:
        """The radius around x that lies in the region: R - d, rounded down; at least 0."""
        return max(0.0, _down(self.radius - (1 + self.tolerance) * self.distance)) if self.distance else self.radius

    @property
    def gap(self) -> float:
        """The radius around x that stays clear of the region: d - R, rounded down."""
        return _down((1 - 4 * self.tolerance) * self.distance - self.radius)


@dataclass(frozen=True)
class Ruling:
    """What may be claimed at x, and why."""

    label: int  # ABSTAIN, or the class
    radius: float
    store: bool  # the ball of `radius` around x is to be stored: only then does the claim hold
    inside: int | None = None  # the stored region that contains x, the one that reaches furthest around it
    cut_by: int | None = None  # the stored region of another class that limits the radius


def decide(label: int, radius: float, neighbours: Sequence[Neighbour]) -> Ruling:
    """What may be claimed at x, where the draws say `label` (or ABSTAIN) and `radius`.

    `neighbours` must hold every stored region that contains x or overlaps the ball of `radius` around x; others change
    nothing. If the claim is kept as the ruling says, the invariant holds again, and from then on every query in the
    open ball of the ruled radius around x is inside regions of the ruled class only.

    - Inside a region of class C: the answer is C. What is left of the region is claimed, or, if the draws say C too and
      it is more, their radius, cut at all regions of other classes.
    - Outside of all: the draws' answer, its radius cut at all regions of other classes. Where nothing is left, x is an
      abstention: a later region could cover x itself.
    - An abstention is answered from inside a region, and never stored.
    """
    around = [near for near in neighbours if near.inside]
    classes = {near.label for near in around}
    if len(classes) > 1:
        raise InputError(f"memory is damaged: its regions of the classes {sorted(classes)} overlap; run memory check")
    home = max(around, key=lambda near: (near.left, -near.region), default=None)
    if home is not None and label != home.label:
        return Ruling(home.label, home.left, store=False, inside=home.region)
    if label == ABSTAIN:
        return Ruling(ABSTAIN, 0.0, store=False)
    others = [near for near in neighbours if near.label != label]
    nearest = min(others, key=lambda near: (near.gap, near.region), default=None)
    cut = nearest is not None and nearest.gap < radius
    reach = max(0.0, nearest.gap) if nearest is not None and cut else radius
    by = nearest.region if nearest is not None and cut else None
    if home is not None:
        if reach > home.left:
            return Ruling(label, reach, store=True, inside=home.region, cut_by=by)
        return Ruling(label, home.left, store=False, inside=home.region, cut_by=by if home.left < radius else None)
    if reach <= 0:
        return Ruling(ABSTAIN, 0.0, store=False, cut_by=by)
    return Ruling(label, reach, store=True, cut_by=by)


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)
