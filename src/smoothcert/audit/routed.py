"""Whether claims of a routed classifier follow from votes: the router's, and those of the member that it chose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from smoothcert.core.described import same
from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.procedures import Certificate, Procedure
from smoothcert.procedures.replay import DrawsError, replay
from smoothcert.procedures.routed import Chosen, OfRouter, join, routed_fingerprint, unreachable
from smoothcert.runs import Finding, RoutingConfig, Run


def replay_routed(certificate: Certificate, procedure: Procedure, routing: RoutingConfig) -> Certificate:
    """What the votes of both give: the router chooses again, that member answers again, and both are joined again.

    Refused (DrawsError) where the recorded answers are not answers to what the two procedures ask.
    """
    route = certificate.route
    if route is None:
        raise DrawsError("the run has a router, and no answers of it are recorded")
    of_router, of_member = (
        Procedure.from_description(described) for described in (routing.router_procedure, routing.member_procedure)
    )
    classes = {tally.num_classes for _, tally in route.answers}
    if classes != {len(routing.strengths)}:
        raise DrawsError(f"the router has {len(routing.strengths)} classes, its votes are of {sorted(classes)}")
    again = replay(route, OfRouter(of_router), Noise.from_description(route.noise))
    noise = Noise.from_description(certificate.noise)
    chosen = None if again.abstained else Chosen(noise.strength_name, routing.strengths[again.label])
    why_not = "" if chosen is None else unreachable(of_member, noise)
    if chosen is None or why_not:
        if certificate.answers:
            raise DrawsError("draws are recorded of a member that was not to be asked")
        return join(procedure, again, None, chosen, why_not=why_not)
    return join(procedure, again, replay(certificate, of_member, noise), chosen)


def check_choice(certificate: Certificate, again: Certificate, routing: RoutingConfig) -> Iterator[tuple[str, str]]:
    """Whether the noise is that of the member which the router's votes choose; of the first one where it abstains."""
    assert again.route is not None
    noise = Noise.from_description(certificate.noise)
    name, wanted = noise.strength_name, routing.strengths[max(again.route.label, 0)]
    found = certificate.noise.get(name)
    if found != wanted:
        yield "route", f"{name} is recorded as {found!r}, the votes of the router choose {wanted!r}"


def check_routing(run: Run) -> Iterator[Finding]:
    """What the configuration of a routed run says of itself and cannot be."""
    config, routing = run.config, run.config.routing
    if routing is None:
        return
    levels = [part.get("alpha") for part in (routing.router_procedure, routing.member_procedure)]
    if not all(isinstance(level, float) and 0 < level < 1 for level in (*levels, config.alpha)):
        yield Finding("alpha", "the levels of the router and of the members are none that can be")
    elif sum(Fraction(level or 0) for level in levels) > Fraction(config.alpha or 0):
        sentence = f"the router has alpha {levels[0]!r} and the members {levels[1]!r}: more than {config.alpha!r}"
        yield Finding("alpha", sentence)
    for name, part in {"router": routing.router_procedure, "members": routing.member_procedure}.items():
        if not same(dict(part) | {"alpha": config.alpha}, config.procedure):
            yield Finding("procedure", f"the {name} have another procedure than the run, besides alpha")
    yield from _check_parts(config.classifier, routing)


def _check_parts(classifier: Mapping[str, Any], routing: RoutingConfig) -> Iterator[Finding]:
    parts = [classifier["router"], *classifier["members"].values()]
    prints = [part.get("fingerprint") for part in parts]
    for name, said, found in zip(
        ["router", *map(repr, routing.strengths)], [routing.router, *routing.members], prints, strict=True
    ):
        if said.fingerprint is not None and said.fingerprint != found:
            sentence = f"the model of {name} is named {said.fingerprint[:12]}..., the classifier {str(found)[:12]}..."
            yield Finding("model", sentence)
    try:
        noise = Noise.from_description(routing.noise)
    except InputError as error:
        yield Finding("noise", f"the router has no noise that can be ({error})")
        return
    strengths = [routing.noise[noise.strength_name], *routing.strengths]
    if classifier.get("fingerprint") != routed_fingerprint(prints, routing.noise, strengths):
        yield Finding("model", "the fingerprint of the routed classifier is not that of its router and members")


def of_router(certificate: Certificate) -> Certificate:
    """The router's part of a certificate."""
    assert certificate.route is not None
    return certificate.route


def of_member(certificate: Certificate) -> Certificate:
    """What the draws of the chosen member back, of a certificate."""
    return replace(certificate, route=None)
