"""What attacks found at one input, beside what was certified there."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.runs.chain import sealed
from smoothcert.runs.damage import DAMAGE
from smoothcert.runs.folder import ChainedFolder, LineWriter


@dataclass(frozen=True)
class Violation:
    """A perturbation below the certified radius that changes the answer: the certificate is false."""

    adversary: str
    distance: float  # l2 norm of the perturbation, rounded up
    answer: int  # what the smoothed classifier answers there
    p_value: float  # that it does not


@dataclass(frozen=True)
class Attacked:
    """One input: the certificate, the smoothed classifier's answer, and the nearest other answer that was found."""

    index: int  # position in the data set
    label: int  # the truth
    answer: int  # majority of the votes at the input itself
    certified: int  # ABSTAIN, or the class
    radius: float  # certified
    distances: Mapping[str, float | None]  # by adversary: l2 norm that changed the answer, rounded up; None: not found
    violation: Violation | None = None
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by adversary: its parts not run, and why

    @property
    def wanted(self) -> int:
        """The truth; where nobody knows it, what the smoothed classifier answers when nothing is perturbed."""
        return self.answer if self.label == UNKNOWN else self.label

    def survives(self, radius: float, adversary: str | None = None) -> bool:
        """The answer is right and no perturbation up to `radius` that changes it was found (by any, or by one)."""
        found = self.distances.values() if adversary is None else [self.distances[adversary]]
        return self.answer == self.wanted and all(distance is None or distance > radius for distance in found)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; floats keep full precision."""
        violation = None if self.violation is None else vars(self.violation)
        left_out = {name: dict(parts) for name, parts in self.left_out.items()}
        return vars(self) | {"distances": dict(self.distances), "violation": violation, "left_out": left_out}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Attacked:
        """The inverse of `to_json`; a value that cannot be is refused."""
        for name in ("index", "label", "answer", "certified"):
            if type(data[name]) is not int:
                raise InputError(f"{name} must be a whole number, got {data[name]!r}")
        violation = None if data["violation"] is None else Violation(**data["violation"])
        found = cls(**{**data, "distances": dict(data["distances"]), "violation": violation})
        for number in (found.radius, *(d for d in found.distances.values() if d is not None)):
            if type(number) not in (int, float) or not 0 <= number < math.inf:
                raise InputError(f"radius and distances must be finite and not negative, got {number!r}")
        return found


@dataclass(frozen=True, kw_only=True)
class AttackConfig:
    """All that decides what an attack finds."""

    attacks: tuple[str, ...]
    autoattack: tuple[str, ...] = ()  # the attacks of its standard set, if it is among the adversaries
    radii: tuple[float, ...]
    steps: int
    draws: int
    votes: int
    run: str  # digest of the configuration of the run that is attacked
    indices: tuple[int, ...]


class AttackRun(ChainedFolder[AttackConfig]):
    """A folder like a run's: frozen configuration, one line per attacked input, resumed in the same way."""

    config_type: ClassVar[type[Any]] = AttackConfig

    def attacked(self) -> list[Attacked]:
        """All complete lines, in the order of the plan. What is not as it was written is refused by line."""
        found: dict[int, Attacked] = {}
        planned = set(self.planned)
        for line in self.lines():
            try:
                content = json.loads(line.text)
                one = Attacked.from_json({k: v for k, v in content.items() if k not in ("previous", "digest")})
            except DAMAGE as error:
                raise self._refused(line.number, f"cannot be read ({error})") from None
            if line.wrong is not None:
                raise self._refused(line.number, line.wrong)
            if one.index in found or one.index not in planned:
                wrong = "repeats" if one.index in found else "is not planned:"
                raise self._refused(line.number, f"{wrong} input {one.index}")
            found[one.index] = one
        return [found[index] for index in self.planned if index in found]

    @contextmanager
    def writing(self) -> Iterator[AttackWriter]:
        """Append what was found. One writer at a time; a second one is refused."""
        with self.appending() as writer:
            yield AttackWriter(writer)

    def _refused(self, number: int, what: str) -> InputError:
        rest = "delete that line and all below it, and run the same attack again"
        return InputError(f"{self._file}, line {number} {what}; {rest}")


class AttackWriter:
    """The appending end of an attack."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer

    def append(self, one: Attacked) -> None:
        """Write what was found at one input and hand it to the operating system: a kill does not lose it."""
        self._writer.append(lambda previous: sealed(one.to_json(), previous))
