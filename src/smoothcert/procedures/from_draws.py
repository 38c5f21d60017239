"""What the draws of an input said, where a memory had the last word."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Any

ABSTAIN = -1


@dataclass(frozen=True)
class FromDraws:
    """What the draws of an input said, where a memory had the last word, and the regions that it was about."""

    label: int  # ABSTAIN, or the class
    radius: float
    reason: str
    region: int | None = None  # the region that answers for the input from now on: new, or one that contains it
    cut_by: int | None = None  # the region of another class that the radius was cut at
    alpha: float | None = None  # of the draws, where the region that answers has a larger one: the certificate's then

    def overruled(self, label: int) -> bool:
        """The draws said one class, a region that contains the input has another, `label`, and it answers."""
        return label != ABSTAIN and self.label not in (label, ABSTAIN)

    def supplied(self, label: int) -> bool:
        """The draws abstained, and a region that contains the input answers `label`."""
        return label != ABSTAIN and self.label == ABSTAIN

    def cut(self, label: int, radius: float) -> bool:
        """The radius ends at a region of another class, before what the draws showed."""
        return not self.overruled(label) and radius < self.radius

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; a level only where it is not the certificate's."""
        return {name: value for name, value in asdict(self).items() if name != "alpha" or value is not None}


def can_be(said: FromDraws) -> bool:
    """Whether it is of the kinds that it should be: it may come from a file."""
    numbered = all(number is None or type(number) is int for number in (said.region, said.cut_by))
    named = type(said.label) is int and said.label >= ABSTAIN and type(said.reason) is str
    level = said.alpha is None or (is_number(said.alpha) and 0 < said.alpha < 1)
    return numbered and named and level and is_number(said.radius) and 0 <= said.radius <= sys.float_info.max


def is_number(value: object) -> bool:
    """A number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
