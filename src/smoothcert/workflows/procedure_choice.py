"""A procedure by its name and options, as a command or a request gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.procedures import PROCEDURES, Procedure, Staged
from smoothcert.stats import BOUNDS, Bound, ClopperPearson

RENAMED = {"n": "most"}  # options whose procedure calls them otherwise
_BUILT = ("name", "radius", "bound", "inverse_temperature", "more")


@dataclass(frozen=True)
class ProcedureChoice:
    """What is said about a procedure; None: nothing, and its own default counts.

    Args:
        name: of the procedure.
        radius: to certify; several for sequential.
        n, n0, alpha, beta, price, runner_up: as its class has them; `n` is `most` of budgeted.
        stages: of staged, with commas between them. Default: from n.
        bound: of fixed, by name.
        inverse_temperature: of the softmax, for soft bounds.
        more: options that a procedure from a plug-in has.
    """

    name: str = "fixed"
    radius: Sequence[float] = ()
    n: int | None = None
    n0: int | None = None
    alpha: float = 0.001
    beta: float | None = None
    stages: str | None = None
    price: float | None = None
    bound: str | None = None
    inverse_temperature: float | None = None
    runner_up: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    def resolve(self) -> Procedure:
        """The procedure; an option that it does not have is refused, not ignored."""
        name = self.name
        if name not in PROCEDURES:
            raise InputError(f"--procedure must be one of {', '.join(PROCEDURES)}, got {name!r}")
        kind = PROCEDURES[name]
        takes = {f.name for f in fields(kind) if f.init}
        options: dict[str, Any] = {}
        for option, value in self._given(kind).items():
            called = option if option in takes else RENAMED.get(option, option)
            if called not in takes:
                raise InputError(f"--{option.replace('_', '-')} does not go with --procedure {name}; leave it out")
            options[called] = value
        if name == "sequential" and not self.radius:
            raise InputError("--procedure sequential certifies given radii: give --radius 0.5, or several")
        if kind is Staged:
            return self._staged(options)
        try:
            return kind(**options)
        except TypeError as error:
            raise InputError(f"--procedure {name} cannot be made of these options ({error})") from None

    def _given(self, kind: type[Procedure]) -> dict[str, Any]:
        """Options by name; a bound is built from its two."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _BUILT}
        # 0 was said, too.
        given = {option: value for option, value in said.items() if value is not None and value is not False}
        if self.radius:
            given["radius"] = list(self.radius)
        if kind is Staged and "n" in given:
            given.pop("n")  # for `matching`
        if self.inverse_temperature is not None and "bound" not in {f.name for f in fields(kind)}:
            return {"inverse_temperature": self.inverse_temperature}  # is refused
        if self.bound is not None or self.inverse_temperature is not None:
            given["bound"] = self._bound()
        return given | dict(self.more)

    def _staged(self, options: dict[str, Any]) -> Procedure:
        if len(self.radius) != 1:
            raise InputError(f"--procedure staged certifies one radius: give --radius once, got {list(self.radius)}")
        options["radius"] = self.radius[0]
        if self.stages is None:
            return Staged.matching(n=100_000 if self.n is None else self.n, **options)
        if self.n is not None:
            raise InputError("--n does not go with --stages, which say how many draws are made; leave one out")
        stages = self.stages.split(",")
        if not all(part.strip().isdecimal() for part in stages):
            raise InputError(f"--stages must be whole numbers with commas between them, got {self.stages!r}")
        return Staged(**options | {"stages": tuple(map(int, stages))})

    def _bound(self) -> Bound:
        name = self.bound or ClopperPearson.name
        if name not in BOUNDS:
            raise InputError(f"--bound must be one of {', '.join(BOUNDS)}, got {name!r}")
        if self.inverse_temperature is None:
            return BOUNDS[name]()
        if BOUNDS[name] is ClopperPearson:
            raise InputError("--inverse-temperature goes with --bound hoeffding or bernstein; leave it out")
        return BOUNDS[name](self.inverse_temperature)  # type: ignore[call-arg]
