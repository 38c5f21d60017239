"""From options of the command line to a procedure."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.core.errors import InputError
from smoothcert.procedures import PROCEDURES, Budgeted, Fixed, Procedure, Sequential, Staged
from smoothcert.stats import BOUNDS, Bound, ClopperPearson


@dataclass(frozen=True)
class ProcedureOptions:
    """What the options say; None: not given."""

    radius: list[float]
    n: int | None
    n0: int | None
    alpha: float
    beta: float | None
    stages: str | None
    price: float | None
    bound: str | None
    inverse_temperature: float | None
    runner_up: bool

    def build(self, name: str) -> Procedure:
        """The procedure; an option that it does not have is refused, not ignored."""
        if name not in PROCEDURES:
            raise InputError(f"--procedure must be one of {', '.join(PROCEDURES)}, got {name!r}")
        made: Procedure = getattr(self, f"_{name}")()
        return made

    def _fixed(self) -> Procedure:
        self._refuse("fixed", "radius", "beta", "stages", "price")
        return Fixed(n0=self._n0, n=self._n, alpha=self.alpha, bound=self._bound(), runner_up=self.runner_up)

    def _staged(self) -> Procedure:
        self._refuse("staged", "price", "bound", "inverse_temperature", "runner_up")
        if len(self.radius) != 1:
            raise InputError(f"--procedure staged certifies one radius: give --radius once, got {self.radius}")
        beta = 0.001 if self.beta is None else self.beta
        if self.stages is None:
            return Staged.matching(radius=self.radius[0], n=self._n, alpha=self.alpha, beta=beta, n0=self._n0)
        if self.n is not None:
            raise InputError("--n does not go with --stages, which say how many draws are made; leave one out")
        stages = self.stages.split(",")
        if not all(part.strip().isdecimal() for part in stages):
            raise InputError(f"--stages must be whole numbers with commas between them, got {self.stages!r}")
        return Staged(radius=self.radius[0], stages=tuple(map(int, stages)), alpha=self.alpha, beta=beta, n0=self._n0)

    def _sequential(self) -> Procedure:
        self._refuse("sequential", "stages", "price", "bound", "inverse_temperature", "runner_up")
        if not self.radius:
            raise InputError("--procedure sequential certifies given radii: give --radius 0.5, or several")
        beta = 0.001 if self.beta is None else self.beta
        return Sequential(radius=self.radius, n=self._n, alpha=self.alpha, beta=beta, n0=self._n0)

    def _budgeted(self) -> Procedure:
        self._refuse("budgeted", "n0", "radius", "beta", "stages", "bound", "inverse_temperature", "runner_up")
        price = Budgeted.price if self.price is None else self.price
        return Budgeted(most=self._n, price=price, alpha=self.alpha)

    @property
    def _n(self) -> int:
        return 100_000 if self.n is None else self.n

    @property
    def _n0(self) -> int:
        return 100 if self.n0 is None else self.n0

    def _refuse(self, procedure: str, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and value is not False and value != []:  # 0 was given, too
                raise InputError(f"--{name.replace('_', '-')} does not go with --procedure {procedure}; leave it out")

    def _bound(self) -> Bound:
        name = self.bound or ClopperPearson.name
        if name not in BOUNDS:
            raise InputError(f"--bound must be one of {', '.join(BOUNDS)}, got {name!r}")
        if self.inverse_temperature is None:
            return BOUNDS[name]()
        if BOUNDS[name] is ClopperPearson:
            raise InputError("--inverse-temperature goes with --bound hoeffding or bernstein; leave it out")
        return BOUNDS[name](self.inverse_temperature)  # type: ignore[call-arg]
