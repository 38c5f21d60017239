"""What a request says about its certificate: radius, alpha, n and a deadline; the rest is the server's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.procedures import Fixed, Procedure, Sequential
from smoothcert.stats import ClopperPearson
from smoothcert.workflows.procedure_choice import RENAMED

NAMES = ("radius", "alpha", "n", "deadline")
NOT_OURS = ("binary_data_output", "timeout", "priority", "sequence_id", "sequence_start", "sequence_end")
"""What clients of the protocol send beside; `timeout` is a deadline in microseconds."""
MOST_RADII = 16


@dataclass(frozen=True)
class Parameters:
    """None: as the server was told."""

    radius: tuple[float, ...] = ()
    alpha: float | None = None
    n: int | None = None
    deadline: float | None = None  # seconds

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Parameters:
        """From JSON or from the query of a URL, where everything is a text; what cannot be is refused by name."""
        unknown = sorted(set(given) - {*NAMES, *NOT_OURS})
        if unknown:
            raise InputError(f"parameters may be {', '.join(NAMES)}, got {unknown[0]!r}; leave it out")
        deadline = given.get("deadline")
        if deadline is None and given.get("timeout"):
            deadline = _number("timeout", given["timeout"]) / 1e6
        radius, n = given.get("radius"), given.get("n")
        parts = radius.split(",") if isinstance(radius, str) else [] if radius is None else [radius]
        if len(parts) > MOST_RADII:
            raise InputError(f"radius may be at most {MOST_RADII} numbers, got {len(parts)}")
        return cls(
            radius=tuple(_positive("radius", part) for part in parts),
            alpha=None if given.get("alpha") is None else _number("alpha", given["alpha"]),
            n=None if n is None else _whole("n", n),
            deadline=None if deadline is None else _positive("deadline", deadline),
        )

    def applied(self, procedure: Procedure) -> Procedure:
        """The server's procedure with what the request says otherwise; an option it does not have is refused.

        A radius that is asked of fixed draws is decided with as few of them as will do.
        """
        if self.radius and isinstance(procedure, Fixed) and isinstance(procedure.bound, ClopperPearson):
            procedure = Sequential(radius=self.radius, n=procedure.n, alpha=procedure.alpha, n0=procedure.n0)
        takes = {field.name: field for field in dataclasses.fields(procedure) if field.init}
        changes: dict[str, Any] = {}
        for name in ("radius", "alpha", "n"):
            value = getattr(self, name)
            if value is None or value == ():
                continue
            called = name if name in takes else RENAMED.get(name, name)
            if called not in takes:
                raise InputError(f"{name} does not go with the procedure {procedure.name} of this server; leave it out")
            changes[called] = value
        if "radius" in changes and len(changes["radius"]) == 1:
            changes["radius"] = changes["radius"][0]
        return dataclasses.replace(procedure, **changes) if changes else procedure


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise InputError(f"{name} must be a number, got {str(value)[:40]!r}")
    return number


def _positive(name: str, value: Any) -> float:
    number = _number(name, value)
    if number <= 0:
        raise InputError(f"{name} must be above 0, got {number:g}")
    return number


def _whole(name: str, value: Any) -> int:
    number = _number(name, value)
    if not number.is_integer():
        raise InputError(f"{name} must be a whole number, got {str(value)[:40]!r}")
    return int(number)
