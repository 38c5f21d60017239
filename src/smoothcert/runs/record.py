"""One line of a run: what was claimed about one input, beside the truth.

A line says only what is its own: what it shares with the whole run (classifier, procedure, seed, and mostly the noise)
stands in `run.json`, once. What tables need is read at once; the whole certificate is put together when it is asked
for, and is then complete.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.procedures import ABSTAIN, Certificate, Decision, FromDraws, Scope
from smoothcert.runs.chain import Line, sealed
from smoothcert.runs.config import RoutingConfig, RunConfig
from smoothcert.runs.damage import DAMAGE

SHARED = ("classifier", "noise", "procedure", "seed", "key", "stream", "alpha", "norm", "scope")
REST = "delete that line and all below it, and run the same certify command again"


class Claim(Protocol):
    """What tables need of a certificate; a `Certificate` is one."""

    @property
    def scope(self) -> Scope:
        """Which classifier it speaks about."""

    @property
    def alpha(self) -> float:
        """The allowed probability that it is false."""

    @property
    def norm(self) -> str:
        """In which its radius is measured."""

    @property
    def p_lower(self) -> float:
        """The lower bound of p_A that the draws show."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """About given radii, where the procedure decides such."""

    @property
    def from_draws(self) -> FromDraws | None:
        """With the scope "memory": what the draws said."""


class SharedSettings:
    """What certificates of one run have in common, and how a line is written without it and read with it."""

    def __init__(self, config: RunConfig, file: Path) -> None:
        self.file = file
        self._config = config
        values: dict[str, Any] = {name: dict(getattr(config, name)) for name in ("classifier", "noise", "procedure")}
        values |= {"seed": config.seed, "stream": config.stream, "alpha": config.alpha}
        values |= {"norm": config.noise.get("norm"), "scope": config.scope}
        values["key"] = None if config.key is None else config.key.hash
        self.values = {name: value for name, value in values.items() if value is not None}
        self._of_router = None if config.routing is None else _of_router(config, config.routing)
        self._last: tuple[bytes, Certificate] | None = None

    @property
    def routed(self) -> bool:
        """Whether the certificates are of a routed classifier."""
        return self._of_router is not None

    def own_part(self, certificate: Certificate) -> dict[str, Any]:
        """The JSON of a certificate without what it shares."""
        content = certificate.to_json()
        own = _without(content, self.values)
        if certificate.route is None or self._of_router is None:
            return own
        return own | {"route": _without(content["route"], self._of_router | {"input_id": certificate.input_id})}

    def foreign(self, own_part: Mapping[str, Any]) -> list[str]:
        """What a certificate names otherwise than its run does; a noise may have an input's own strength and offset."""
        found = [name for name in ("classifier", "procedure", "seed", "key", "stream") if name in own_part]
        if "noise" in own_part:
            of_all = self._config.shared_noise
            found += ["noise"] if of_all(own_part["noise"]) != of_all(self._config.noise) else []
        route = own_part.get("route", {})
        found += [f"{name} of the router" for name in ("classifier", "procedure", "seed", "stream") if name in route]
        if "noise" in route and self._of_router is not None:
            then, now = (
                {k: v for k, v in n.items() if k != "offset"} for n in (self._of_router["noise"], route["noise"])
            )
            found += ["noise of the router"] if then != now else []
        return found

    def certificate(self, line: Line) -> Certificate:
        """The whole certificate of a line; whoever asks again for the same one gets it at once."""
        if self._last is None or self._last[0] is not line.text:
            try:
                content = json.loads(line.text)["certificate"]
                if "route" in content:
                    shared = (self._of_router or {}) | {"input_id": content["input_id"]}
                    content["route"] = shared | content["route"]
                self._last = (line.text, Certificate.from_json(self.values | content))
            except DAMAGE as error:
                raise InputError(f"{self.file}, line {line.number} cannot be read ({error}); {REST}") from None
        return self._last[1]


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """A claim as it stands in a line, and the way to its whole certificate."""

    scope: Scope
    alpha: float
    norm: str
    p_lower: float
    decisions: tuple[Decision, ...]
    from_draws: FromDraws | None
    line: Line
    shared: SharedSettings = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """An input of a data set, its true label, and the claim. Public logs have no certificate: they keep no votes."""

    index: int  # position in the data set
    label: int  # the truth, or UNKNOWN
    prediction: int  # ABSTAIN, or the class
    radius: float
    draws: int | None = None
    seconds: float | None = None
    claim: Claim | None = None

    @property
    def certificate(self) -> Certificate | None:
        """The whole certificate; None for a public log."""
        if isinstance(self.claim, StoredClaim):
            return self.claim.shared.certificate(self.claim.line)
        return self.claim if isinstance(self.claim, Certificate) else None

    @property
    def abstained(self) -> bool:
        """Nothing was claimed."""
        return self.prediction == ABSTAIN

    @property
    def correct(self) -> bool:
        """The claim is of the true class. Recomputed, never read: one author's logs hold a running total instead."""
        return self.labelled and self.prediction == self.label

    @property
    def labelled(self) -> bool:
        """The truth is known."""
        return self.label != UNKNOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._numbers == other._numbers and self.certificate == other.certificate

    def __hash__(self) -> int:
        return hash(self._numbers)

    @property
    def _numbers(self) -> tuple[Any, ...]:
        return (self.index, self.label, self.prediction, self.radius, self.draws, self.seconds)

    @classmethod
    def of(cls, index: int, label: int, certificate: Certificate, seconds: float) -> Record:
        """The record of a certificate."""
        return cls(index, label, certificate.label, certificate.radius, certificate.draws, seconds, certificate)

    def to_line(self, shared: SharedSettings, previous: str) -> bytes:
        """The line of a run that follows the digest `previous`: index, truth, time, and the certificate's own part."""
        certificate = self.certificate
        if certificate is None:
            raise InputError("a record without a certificate comes from a public log and cannot be written to a run")
        content = {"index": self.index, "label": self.label, "seconds": self.seconds}
        return sealed(content | {"certificate": shared.own_part(certificate)}, previous)

    @classmethod
    def from_line(cls, line: Line, data: Mapping[str, Any], shared: SharedSettings) -> Record:
        """The inverse of `to_line`, from the JSON of a line; a value that tables need and cannot be is refused."""
        content: Mapping[str, Any] = data["certificate"]
        index, label, prediction = data["index"], data["label"], content["label"]
        for name, value in (("index", index), ("label", label), ("label of the certificate", prediction)):
            if type(value) is not int or value < ABSTAIN:
                raise InputError(f"{name} must be a whole number, got {value!r}")
        radius, seconds = content["radius"], data["seconds"]
        _check_number("radius", radius)
        _check_number("seconds", seconds, least=-sys.float_info.max)
        if prediction == ABSTAIN and radius:
            raise InputError(f"radius must be 0 for an abstention, got {radius!r}")
        if ("route" in content) != shared.routed:
            raise InputError(f"route must {'be there' if shared.routed else 'not be there'}: as the run has a router")
        answers = [*content["answers"], *(content["route"]["answers"] if shared.routed else ())]
        draws = sum(sum(answer["votes"].values()) for answer in answers)
        if type(draws) is not int:
            raise InputError(f"votes must be whole numbers, got {draws!r} in all")
        return cls(index, label, prediction, radius, draws, seconds, _claim(content, line, shared))


def _of_router(config: RunConfig, routing: RoutingConfig) -> dict[str, Any]:
    """What the routers' certificates of a run have in common."""
    return {
        "classifier": dict(config.classifier["router"]),
        "noise": dict(routing.noise),
        "procedure": dict(routing.router_procedure),
        "seed": config.seed,
        "stream": routing.stream,
        "alpha": routing.router_procedure.get("alpha"),
        "norm": routing.noise.get("norm"),
        "scope": Scope.FIXED,
    }


def _without(content: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """What is not shared."""
    named = {*SHARED, "input_id"} & set(shared)
    return {name: value for name, value in content.items() if name not in named or value != shared[name]}


def _claim(content: Mapping[str, Any], line: Line, shared: SharedSettings) -> StoredClaim:
    values = shared.values
    alpha, norm = content.get("alpha", values.get("alpha")), content.get("norm", values.get("norm"))
    _check_number("alpha", alpha, most=1)
    _check_number("p_lower", content["p_lower"], most=1)
    if type(norm) is not str:
        raise InputError(f"norm must be a text, got {norm!r}")
    decisions = tuple(_decision(one) for one in content["decisions"]) if content["decisions"] else ()
    scope = Scope(content["scope"]) if "scope" in content else values["scope"]
    said = FromDraws(**content["from_draws"]) if "from_draws" in content else None
    if (said is None) == (scope is Scope.MEMORY):
        raise InputError(f"scope is {scope.value!r}, which does not go with what the draws said: {said!r}")
    if said is not None:
        _check_number("radius of the draws", said.radius)
    return StoredClaim(scope, alpha, norm, content["p_lower"], decisions, said, line, shared)


def _decision(content: Mapping[str, Any]) -> Decision:
    decision = Decision(**content)
    _check_number("radius of a decision", decision.radius)
    if type(decision.step) is not int or type(decision.steps) is not int or type(decision.certified) is not bool:
        raise InputError(f"a decision must name its step and what it was, got {dict(content)!r}")
    return decision


def _check_number(name: str, value: Any, *, least: float = 0.0, most: float = sys.float_info.max) -> None:
    if type(value) not in (int, float) or not least <= value <= most:
        raise InputError(f"{name} must be a number from {least:g} to {most:g}, got {value!r}")
