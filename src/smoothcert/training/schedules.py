"""How the learning rate goes over the epochs. A schedule is a pure function of time, so there is no state to resume."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothcert.core.described import Described
from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry

SCHEDULES: Registry[type[Schedule]] = Registry("schedule")


@dataclass(frozen=True)
class Schedule(Described, ABC):
    """A factor on the learning rate at every moment of training."""

    registry: ClassVar[Registry[Any]] = SCHEDULES

    @abstractmethod
    def factor(self, epoch: float, epochs: int) -> float:
        """The factor at time `epoch` in [0, epochs), with fractions inside an epoch."""


@SCHEDULES.add
@dataclass(frozen=True)
class Constant(Schedule):
    """The learning rate as it is."""

    name: ClassVar[str] = "constant"

    def factor(self, epoch: float, epochs: int) -> float:
        """1."""
        return 1.0


@SCHEDULES.add
@dataclass(frozen=True)
class Step(Schedule):
    """Times `drop` at every epoch in `milestones`, or after every `every` epochs (Cohen et al. 2019: 50, x0.1)."""

    name: ClassVar[str] = "step"
    every: int | None = None
    milestones: tuple[int, ...] = ()
    drop: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "milestones", tuple(self.milestones))
        if (self.every is None) == (not self.milestones):
            raise InputError(
                f"a step schedule has either `every` or `milestones`, got {self.every} and {list(self.milestones)}"
            )
        epochs = (1 if self.every is None else self.every, *self.milestones)
        whole = all(isinstance(number, int) and not isinstance(number, bool) and number >= 1 for number in epochs)
        if not whole or not 0 < self.drop < math.inf:
            raise InputError(
                "every, milestones (whole numbers) and drop of a step schedule must be positive and finite, "
                f"got {self.every}, {list(self.milestones)} and {self.drop}"
            )

    def factor(self, epoch: float, epochs: int) -> float:
        """`drop` to the number of drops so far."""
        drops = int(epoch) // self.every if self.every else sum(epoch >= milestone for milestone in self.milestones)
        return float(self.drop**drops)


@SCHEDULES.add
@dataclass(frozen=True)
class Cosine(Schedule):
    """From 1 down to 0 along half a cosine (Loshchilov & Hutter 2017, without restarts)."""

    name: ClassVar[str] = "cosine"

    def factor(self, epoch: float, epochs: int) -> float:
        """(1 + cos(pi t)) / 2 with t the share of training that is over."""
        return (1 + math.cos(math.pi * epoch / epochs)) / 2


@SCHEDULES.add
@dataclass(frozen=True)
class OneCycle(Schedule):
    """Up to 1 over the first `rise` of training, then down to almost 0, each along half a cosine: few epochs suffice.

    Smith & Topin 2019; starts at `start`, ends at `start` / 10^4. Departure: the momentum stays as it is.
    """

    name: ClassVar[str] = "one-cycle"
    rise: float = 0.3
    start: float = 0.04

    def __post_init__(self) -> None:
        if not 0 < self.rise < 1 or not 0 < self.start <= 1:
            raise InputError(f"rise and start of a one-cycle must lie in (0, 1), got {self.rise} and {self.start}")

    def factor(self, epoch: float, epochs: int) -> float:
        """Between `start`, 1 and `start` / 10^4."""
        t = epoch / epochs
        if t < self.rise:
            return _between(self.start, 1.0, t / self.rise)
        return _between(1.0, self.start / 1e4, (t - self.rise) / (1 - self.rise))


def _between(first: float, last: float, t: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * t)) / 2
