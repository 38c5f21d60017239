"""What is claimed about one input, with everything needed to check the claim."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.procedures.from_draws import ABSTAIN, FromDraws, can_be, is_number
from smoothcert.stats import Tally
from smoothcert.stats.rounding import down

INCLUSIVE = "l0"
"""The norm whose radii are covered themselves: it counts changed coordinates."""


class Scope(StrEnum):
    """Which classifier a certificate speaks about."""

    FIXED = "fixed classifier"
    MEMORY = "memory"
    OWN = "this input's own classifier"


@dataclass(frozen=True)
class Decision:
    """What was decided about one given radius, and when: the look or stage `step` of `steps`."""

    radius: float
    certified: bool
    step: int  # from 1
    steps: int


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What certificates and predictions share: an answer, the votes behind it, and where both came from."""

    label: int  # ABSTAIN, or the class
    reason: str  # one sentence: why this label and radius, or why none
    alpha: float
    procedure: Mapping[str, Any]
    # Whoever answers the conversation (`converse`, the engine) writes down what was said, in order: with it, and
    # without a model, the whole conversation can be held again.
    answers: tuple[tuple[str, Tally], ...] = ()  # (purpose, what its draws said)
    # The engine fills in what a conversation cannot know.
    noise: Mapping[str, Any] = field(default_factory=dict)
    classifier: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    key: str | None = None  # hash of the secret that the seed follows from (`core.secret`); None: anybody knew the seed
    stream: str = ""  # how random bits are made of seed, input and purpose
    input_id: str = ""
    weights: tuple[float, ...] | None = None  # of an ensemble's members, where each input has its own

    @property
    def abstained(self) -> bool:
        """No answer was given."""
        return self.label == ABSTAIN

    @property
    def tallies(self) -> dict[str, Tally]:
        """All answers summed up by purpose, in the order of first use."""
        sums: dict[str, Tally] = {}
        for purpose, tally in self.answers:
            sums[purpose] = sums[purpose] + tally if purpose in sums else tally
        return sums

    @property
    def candidate(self) -> int:
        """The class that most draws of the first purpose voted for: the one that the others are about."""
        return next(iter(self.tallies.values())).top

    @property
    def draws(self) -> int:
        """All draws that were counted, those that chose the class included."""
        return sum(tally.draws for _, tally in self.answers)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; floats keep full precision."""
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        out["answers"] = [{"purpose": purpose, **tally.to_json()} for purpose, tally in self.answers]
        weights = out.pop("weights")
        out |= {} if weights is None else {"weights": list(weights)}
        if self.key is None:
            del out["key"]
        return out | {"noise": dict(self.noise), "classifier": dict(self.classifier), "procedure": dict(self.procedure)}


@dataclass(frozen=True, kw_only=True)
class Certificate(Answered):
    """No perturbation with `norm` below `radius` changes the smoothed classifier's answer from `label`.

    In l0, which counts coordinates, none up to and including `radius` does.

    The statement is about the classifier named by `classifier`, `noise` and `scope`, and is wrong with probability at
    most `alpha` over the draws. `label` is ABSTAIN, and `radius` 0, where nothing can be claimed; `reason` says why.

    With a `route` the classifier is a routed one (`procedures.routed`): a router chose whose draws are in `answers` and
    whose noise is `noise`, and `route` is the router's own certificate, whose label is the number of the member. Where
    the router abstains, nobody else was asked, and `answers` is empty.

    With the scope "memory" it is about whoever answers through that memory, from the insertion on: every query nearer
    than `radius` is answered with `label`, because it lies in a stored region. That much is certain; alpha is of the
    draws, which said that the class at the centre of the region is the smoothed classifier's own: where another input's
    region answers, the larger one of both.
    """

    radius: float
    norm: str
    p_lower: float  # \underline{p_A}
    p_upper: float | None = None  # \overline{p_B}; None: bounded by 1 - p_lower
    scope: Scope = Scope.FIXED
    decisions: tuple[Decision, ...] = ()  # for procedures that decide given radii: one each, ascending
    from_draws: FromDraws | None = None  # with the scope "memory": what the draws said
    route: Certificate | None = None  # of a routed classifier: that of the router

    @property
    def draws(self) -> int:
        """All draws that were counted, those that chose the class, and those of a router, included."""
        return super().draws + (0 if self.route is None else self.route.draws)

    def as_drawn(self) -> Certificate:
        """What the draws said, before a memory spoke; itself where none did."""
        said = self.from_draws
        if said is None:
            return self
        alpha = self.alpha if said.alpha is None else said.alpha
        drawn = replace(self, label=said.label, radius=said.radius, reason=said.reason, alpha=alpha)
        return replace(drawn, scope=Scope.OWN, from_draws=None)

    @property
    def drawn_label(self) -> int:
        """What the draws said: the label without a memory."""
        return self.label if self.from_draws is None else self.from_draws.label

    @property
    def drawn_radius(self) -> float:
        """What the draws showed: the radius without a memory."""
        return self.radius if self.from_draws is None else self.from_draws.radius

    @property
    def overruled(self) -> bool:
        """The draws said one class, a region that contains the input has another, and it answers."""
        return self.from_draws is not None and self.from_draws.overruled(self.label)

    @property
    def supplied(self) -> bool:
        """The draws abstained, and a region that contains the input answers."""
        return self.from_draws is not None and self.from_draws.supplied(self.label)

    @property
    def cut(self) -> bool:
        """The radius ends at a region of another class, before what the draws showed."""
        return self.from_draws is not None and self.from_draws.cut(self.label, self.radius)

    @property
    def within(self) -> str:
        """How far the claim reaches, in words: "below l2 radius 0.5", "up to l0 radius 3"."""
        reach, digits = ("up to", 0) if self.norm == INCLUSIVE else ("below", 4)  # l0 counts coordinates
        return f"{reach} {self.norm} radius {down(self.radius, digits)}"

    def __str__(self) -> str:
        sure = f"{self.scope}, wrong with probability at most {self.alpha:g}"
        if self.abstained:
            return f"abstains: {self.reason} ({sure})"
        # Rounded down: a printed claim must not exceed the proved one.
        return f"class {self.label} {self.within}: {self.reason} ({sure}{self._grid})"

    def _repr_html_(self) -> str:
        """For notebooks: the same sentence."""
        return f"<p>{html.escape(str(self))}</p>"

    @property
    def _grid(self) -> str:
        """What happens to perturbed inputs beside the grid of the noise: it belongs to the claim."""
        grid = self.noise.get("grid")
        if not isinstance(grid, float) or not 0 < grid <= 1:
            return ""
        step = Fraction(grid).limit_denominator(2**16)
        return f"; perturbed inputs are rounded to the nearest multiple of {step}, and their distance is measured then"

    @property
    def votes(self) -> tuple[int, ...]:
        """Votes per class of the draws that decided: not of those that chose the class, nor of earlier stages.

        Those of Sequential and Staged were stopped by looking at them: they must not be bounded again. Where Evaluate
        gave up, those that chose. None where a router abstained.
        """
        return list(self.tallies.values())[-1].votes if self.answers else ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; floats keep full precision."""
        out = super().to_json() | {"decisions": [asdict(decision) for decision in self.decisions]}
        said, route = out.pop("from_draws"), out.pop("route")
        out |= {} if said is None else {"from_draws": said.to_json()}
        return out if route is None else out | {"route": route.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        """The inverse of `to_json`; a value that no certificate can have is refused by name."""
        known = {f.name for f in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        values["answers"] = tuple((answer["purpose"], Tally.from_json(answer)) for answer in data["answers"])
        decisions = tuple(Decision(**decision) for decision in data["decisions"])
        said = FromDraws(**data["from_draws"]) if "from_draws" in data else None
        if "weights" in data:
            values["weights"] = _weights(data["weights"])
        route = cls.from_json(data["route"]) if "route" in data else None
        about = {"scope": Scope(data["scope"]), "decisions": decisions, "from_draws": said, "route": route}
        certificate = cls(**values | about)
        certificate._check()
        return certificate

    def _check_answers(self) -> None:
        unasked = self.route is not None and self.abstained
        if not (self.answers or unasked) or not all(type(purpose) is str for purpose, _ in self.answers):
            raise InputError("answers of a certificate must be at least one, each with its purpose")
        if self.route is not None and (self.route.route is not None or self.scope is not Scope.FIXED):
            raise InputError("route must be the certificate of one router, and of the scope fixed classifier alone")
        if len({tally.num_classes for _, tally in self.answers}) > 1:
            raise InputError("answers of a certificate must all be of the same classes")
        _ = self.tallies  # which refuses to add votes and scores

    def _check(self) -> None:
        self._check_answers()
        whole = {"label": (self.label, ABSTAIN), "seed": (self.seed, None)}
        for name, (value, least) in whole.items():
            if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
                raise InputError(f"{name} of a certificate must be a whole number, got {value!r}")
        for name in ("procedure", "noise", "classifier"):
            if not isinstance(getattr(self, name), dict):
                raise InputError(f"{name} of a certificate must be an object, got {getattr(self, name)!r}")
        for name in ("reason", "norm", "input_id", "key"):
            if not isinstance(getattr(self, name), str) and (name != "key" or self.key is not None):
                raise InputError(f"{name} of a certificate must be a text, got {getattr(self, name)!r}")
        shares = {"p_lower": self.p_lower, "alpha": self.alpha, "p_upper": self.p_upper}
        for name, share in shares.items():
            optional = name == "p_upper" and share is None
            if not optional and not (is_number(share) and 0 <= share <= 1):  # type: ignore[operator]
                raise InputError(f"{name} of a certificate must lie in [0, 1], got {share!r}")
        if not (is_number(self.radius) and 0 <= self.radius <= sys.float_info.max) or (self.abstained and self.radius):
            raise InputError(f"radius of a certificate must be finite, and 0 for an abstention, got {self.radius!r}")
        said = self.from_draws
        if (said is not None) != (self.scope is Scope.MEMORY) or not (said is None or can_be(said)):
            raise InputError(f"from_draws must be what the draws said, and of the scope memory alone, got {said!r}")


def _weights(given: object) -> tuple[float, ...]:
    if not isinstance(given, list) or not all(is_number(weight) and 0 <= weight <= 1 for weight in given):
        raise InputError(f"weights of a certificate must lie in [0, 1], got {given!r}")
    return tuple(given)


@dataclass(frozen=True, kw_only=True)
class Prediction(Answered):
    """The smoothed classifier's answer: wrong (not the true top class under noise) with probability at most alpha.

    With the scope "memory" a stored region that contains the input answered: there were no draws, and no chance.
    """

    p_value: float
    scope: Scope = Scope.FIXED
    route: Prediction | None = None  # of a routed classifier: what the router answered, the number of a member

    @property
    def draws(self) -> int:
        """All draws that were counted, those of a router included."""
        return super().draws + (0 if self.route is None else self.route.draws)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; floats keep full precision."""
        out = super().to_json()
        route = out.pop("route")
        return out if route is None else out | {"route": route.to_json()}

    @property
    def votes(self) -> tuple[int, ...]:
        """Votes per class; none where a memory answered, or a router abstained."""
        return list(self.tallies.values())[-1].votes if self.answers else ()
