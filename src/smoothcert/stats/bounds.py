"""The contract of a confidence bound on the probability (or mean score) of a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothcert.core.described import Described
from smoothcert.core.registry import Registry
from smoothcert.stats.tally import Tally

BOUNDS: Registry[type[Bound]] = Registry("bound")


@dataclass(frozen=True)
class Bound(Described, ABC):
    """One-sided confidence bounds from a tally. Frozen; options are fields.

    `lower` is at most the truth, and `upper` at least the truth, each with probability >= 1 - alpha over the draws of
    the tally, for a label that was fixed before them.
    """

    registry: ClassVar[Registry[Any]] = BOUNDS

    @property
    def beta(self) -> float | None:
        """Inverse temperature of the softmax whose scores it needs, or None: votes are enough."""
        return None

    @abstractmethod
    def top(self, tally: Tally) -> int:
        """The class this bound would be asked about: the most votes, or the highest mean score."""

    @abstractmethod
    def lower(self, tally: Tally, label: int, alpha: float) -> float:
        """A value in [0, 1] that is at most the truth with probability at least 1 - alpha."""

    @abstractmethod
    def upper(self, tally: Tally, label: int, alpha: float) -> float:
        """A value in [0, 1] that is at least the truth with probability at least 1 - alpha."""

    @abstractmethod
    def unanimous(self, n: int) -> Tally:
        """The best tally that n draws can give class 0 of two: what decides whether n can certify anything."""
