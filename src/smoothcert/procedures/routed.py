"""Routed smoothing: a smoothed router chooses which smoothed classifier answers, and both have a certificate.

G(x) = g_{H(x)}(x), where H is the router and g_k the classifier with strength s_k (after Sun, Mao & Vechev 2026, Dual
Randomized Smoothing). If H is constant within r_1 around x and g_{H(x)} within r_2, then G is constant within
min(r_1, r_2). A certificate of the router is false with probability at most alpha_1. If it is true, then H(x) is what
it says, one fixed number, and the certificate of that one classifier is false with probability at most alpha_2. So the
answer is false with probability at most alpha_1 + alpha_2, and G is one fixed classifier.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from smoothcert.core.errors import InputError
from smoothcert.procedures.certificate import Certificate, Prediction, Scope
from smoothcert.procedures.conversation import Conversation, Geometry, Procedure
from smoothcert.procedures.from_draws import ABSTAIN
from smoothcert.procedures.predict import Predict
from smoothcert.stats import Tally
from smoothcert.stats.rounding import down

PREFIX = "router/"
"""What purposes of a router's draws begin with: they share no random bits with those of the chosen classifier."""

Answer = TypeVar("Answer", Certificate, Prediction)
Level = TypeVar("Level", Procedure, Predict)


def own_draws(conversation: Conversation[Answer]) -> Conversation[Answer]:
    """The conversation with purposes that are the router's own."""
    try:
        ask = next(conversation)
        while True:
            tally: Tally = yield dataclasses.replace(ask, purpose=PREFIX + ask.purpose)
            ask = conversation.send(tally)
    except StopIteration as stop:
        answer: Answer = stop.value
        return answer


@dataclass(frozen=True)
class OfRouter(Procedure):
    """A procedure as the router is certified by it: the same, with draws of its own."""

    name: ClassVar[str] = "of router"
    inner: Procedure

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """What the inner procedure says."""
        return own_draws(self.inner.certify(noise))

    def most_draws(self) -> int:
        """Those of the inner procedure."""
        return self.inner.most_draws()

    def fixed_draws(self) -> int:
        """Those of the inner procedure."""
        return self.inner.fixed_draws()


def split_level(procedure: Level, router_share: float) -> tuple[Level, Level]:
    """The procedure of the router and that of the chosen classifier: the same, with levels that sum to at most its own.

    Settled before anything is drawn: a share that was chosen with a look at the votes would prove nothing.
    """
    if isinstance(router_share, bool) or not isinstance(router_share, int | float) or not 0 < router_share < 1:
        raise InputError(f"router_share must lie strictly between 0 and 1, got {router_share!r}")
    if isinstance(procedure, Procedure) and procedure.for_test_data:
        raise InputError(f"procedure {procedure.name} looks at labels, and a router has none; take fixed")
    alpha = getattr(procedure, "alpha", None)
    if not isinstance(alpha, float):
        raise InputError(f"a routed classifier needs a procedure with a level alpha to share, got {procedure!r}")
    of_router = alpha * router_share
    of_member = alpha - of_router
    while Fraction(of_router) + Fraction(of_member) > Fraction(alpha):
        of_member = math.nextafter(of_member, 0)
    first, second = (dataclasses.replace(procedure, alpha=level) for level in (of_router, of_member))  # type: ignore[call-arg]
    return first, second


def unreachable(procedure: Procedure, noise: Geometry) -> str:
    """Why nothing that the procedure asks for can ever be shown under this noise, as a sentence; "" where it can."""
    try:
        next(procedure.certify(noise))
    except InputError as error:
        return str(error)
    return ""


def routed_fingerprint(fingerprints: Sequence[str | None], noise: Mapping[str, Any], strengths: Sequence[float]) -> Any:
    """Of a routed classifier: of its router's and members' fingerprints, noise and strengths; None if one has none.

    `fingerprints` and `strengths` are the router's first; `noise` describes any of the noises, which are of one kind.
    """
    if None in fingerprints:
        return None
    kind = [noise.get(name) for name in ("name", "norm", "grid")]
    return hashlib.sha256(json.dumps([list(fingerprints), list(strengths), kind]).encode()).hexdigest()


@dataclass(frozen=True)
class Chosen:
    """The member that a router chose, in words."""

    strength_name: str
    strength: float

    def __str__(self) -> str:
        return f"{self.strength_name} {self.strength:g}"


def join(
    procedure: Procedure, route: Certificate, member: Certificate | None, chosen: Chosen | None, *, why_not: str = ""
) -> Certificate:
    """The certificate of the routed classifier, from that of the router and of the member that it chose.

    Args:
        procedure: with the whole level, of which both have their share.
        route: the router's.
        member: the chosen member's; None where none was asked: the router abstains, or
        why_not: it could never show what was asked for.
        chosen: the member in words; None where the router abstains.
    """
    whole = {"procedure": procedure.describe(), "alpha": procedure.alpha, "route": route, "scope": Scope.FIXED}  # type: ignore[attr-defined]
    if chosen is None or member is None:
        reason = f"the router abstains: {route.reason}" if chosen is None else f"answered with {chosen}: {why_not}"
        undecided = tuple(dataclasses.replace(decision, certified=False) for decision in route.decisions)
        nothing = {"label": ABSTAIN, "radius": 0.0, "p_lower": 0.0, "p_upper": None, "answers": ()}
        return dataclasses.replace(route, **nothing, reason=reason, decisions=undecided, **whole)  # type: ignore[arg-type]
    if route.norm != member.norm:
        raise InputError(f"the router's radius is in {route.norm} and the classifier's in {member.norm}; take one norm")
    radius = min(route.radius, member.radius)
    decisions = tuple(
        dataclasses.replace(one, certified=one.certified and of_route.certified)
        for one, of_route in zip(member.decisions, route.decisions, strict=True)
    )
    holds = f"answered with {chosen}; the choice holds within {down(route.radius, 4)}"
    answer = "" if member.abstained else f", the answer within {down(member.radius, 4)}"
    reason = f"{holds}{answer}: {member.reason}"
    return dataclasses.replace(member, radius=radius, decisions=decisions, reason=reason, **whole)


def join_predictions(
    procedure: Predict, shares: Sequence[float], route: Prediction, member: Prediction | None, chosen: Chosen | None
) -> Prediction:
    """The answer of the routed classifier, wrong with probability at most alpha: errors of both add up.

    Its p-value is the smallest alpha, shared as it is here, at which it would have been given.
    """
    whole = {"procedure": procedure.describe(), "alpha": procedure.alpha, "route": route}
    if member is None or chosen is None:
        p_value = min(1.0, route.p_value / shares[0])
        reason = f"the router abstains: {route.reason}"
        return dataclasses.replace(route, answers=(), label=ABSTAIN, reason=reason, p_value=p_value, **whole)  # type: ignore[arg-type]
    p_value = min(1.0, max(route.p_value / shares[0], member.p_value / shares[1]))
    reason = f"answered with {chosen}; {member.reason}"
    return dataclasses.replace(member, reason=reason, p_value=p_value, **whole)  # type: ignore[arg-type]
