"""A certification procedure is a conversation: it asks for draws, is sent their tally, and returns what it may claim.

It never sees a model or a tensor. Whoever holds the other end (the engine, a test with simulated votes, an auditor
with recorded ones) decides where the draws come from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

from smoothcert.core.described import Described
from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry
from smoothcert.procedures.certificate import Answered, Certificate
from smoothcert.stats import Tally
from smoothcert.stats.rounding import down

Answer = TypeVar("Answer", bound=Answered)
MOST_DRAWS = 10**8  # per input; beyond it nobody certifies, and tables for it would not end


@dataclass(frozen=True)
class Ask:
    """A wish for the next n draws of one purpose. Purposes never share a draw; a purpose's draws are never repeated."""

    purpose: str
    n: int
    beta: float | None = None  # inverse temperature, if scores are wanted beside the votes
    further: int = 0  # draws of the purpose that may be wished for later, at most: whoever is idle may make them before

    def __post_init__(self) -> None:
        check_draws("n", self.n)
        if self.further < 0:
            raise InputError(f"further must be 0 or a number of draws, got {self.further}")


CHOOSE, BOUND = "choose", "bound"  # purposes: the class is chosen on draws that never bound it

Conversation = Generator[Ask, Tally, Answer]


class Geometry(Protocol):
    """What a procedure needs to know of a noise: the radius that a probability buys, and the reverse."""

    @property
    def norm(self) -> str:
        """The norm that the radius is measured in."""

    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """Certified radius, rounded down; 0 where nothing can be certified."""

    def required_p(self, radius: float) -> float:
        """The smallest p_lower that certifies `radius`, rounded up."""

    def __hash__(self) -> int: ...


PROCEDURES: Registry[type[Procedure]] = Registry("procedure")


@dataclass(frozen=True)
class Procedure(Described, ABC):
    """Options in frozen fields, the algorithm in `certify`.

    What it claims must follow from its options and from the answers it was given, alone (and from the label of the
    input, if it is `for_test_data`): then a record can be checked.
    """

    registry: ClassVar[Registry[Any]] = PROCEDURES
    for_test_data: ClassVar[bool] = False
    """Whether it looks at the label of the input, which only test data have; see `knowing`."""

    @abstractmethod
    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """Converse about one input: yield `Ask`s, receive tallies, return the certificate."""

    def knowing(self, label: int) -> Procedure:
        """This procedure for an input with this label; itself, unless it is `for_test_data`."""
        return self

    @abstractmethod
    def most_draws(self) -> int:
        """The most draws that one input can take, those that choose the class included."""

    @abstractmethod
    def fixed_draws(self) -> int:
        """What `Fixed` would take per input to show as much, n0 included: what savings are measured against."""


def converse(conversation: Conversation[Answer], draw: Callable[[Ask], Tally]) -> Answer:
    """Hold a whole conversation with `draw` answering each wish; what was said is written into the answer."""
    said: list[tuple[str, Tally]] = []
    try:
        ask = next(conversation)
        while True:
            said.append((ask.purpose, answered(ask, draw(ask))))
            ask = conversation.send(said[-1][1])
    except StopIteration as stop:
        answer: Answer = stop.value
        return replace(answer, answers=tuple(said))


def answered(ask: Ask, tally: Tally) -> Tally:
    """The answer to a wish, refused if it is of more or fewer draws: a block counted twice would prove too much."""
    if tally.draws != ask.n:
        raise InputError(f"the wish was for {ask.n} draws ({ask.purpose}), the answer has {tally.draws}")
    return tally


def check_level(name: str, value: float) -> None:
    """Refuse an error probability outside (0, 1)."""
    if not 0 < value < 1:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {value}")


def check_draws(name: str, value: int, smallest: int = 1) -> None:
    """Refuse a number of draws that cannot work."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a whole number of draws, got {value!r}")
    if value < smallest:
        raise InputError(f"{name} must be at least {smallest}, got {value}: fewer can never give an answer")
    if value > MOST_DRAWS:
        raise InputError(f"{name} must be at most {MOST_DRAWS}, got {value}: more would not end")


def check_reachable(noise: Geometry, radius: float, p_lower: float) -> bool:
    """Refuse a radius that even votes without a single failure, worth `p_lower`, could not show.

    False where that is only for how far this one input is from the grid of its noise: others may well reach it.
    """
    if p_lower >= noise.required_p(radius):
        return True
    if getattr(noise, "offset", 0.0) > 0:
        return False
    most = down(noise.radius(p_lower), 4)
    raise InputError(
        f"radius {radius:g} can never be shown: all draws agreeing give {noise.norm} radius {most}; "
        "ask for a smaller radius, or give more draws or more noise"
    )
