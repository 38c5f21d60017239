"""Whose draws the answers of a run are: of one smoothed classifier, or of a router and of the members it chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from smoothcert.audit.routed import of_member, of_router
from smoothcert.core.errors import InputError
from smoothcert.engine import Routed, Smoothed
from smoothcert.procedures import Certificate, FixedDraws, Procedure
from smoothcert.procedures.routed import PREFIX, OfRouter
from smoothcert.runs import Record, Run


@dataclass(frozen=True)
class Part:
    """One smoothed classifier, the records with its own answers, and the procedure that asked for them.

    Of a routed run each record's certificate is the part that rests on this classifier's draws.
    """

    smoothed: Smoothed
    records: tuple[Record, ...]
    procedure: Procedure
    name: str = ""  # "" where it is all there is

    @property
    def plain_procedure(self) -> Procedure:
        """As it is without a router."""
        return self.procedure.inner if isinstance(self.procedure, OfRouter) else self.procedure

    @property
    def beta(self) -> float | None:
        """The inverse temperature of its scores, if these are asked for."""
        plain = self.plain_procedure
        return plain.bound.beta if isinstance(plain, FixedDraws) else None


def parts_of(run: Run, records: Sequence[Record], smoothed: Smoothed | Routed) -> list[Part]:
    """All that drew something, the router first."""
    routing, procedure = run.config.routing, run.config.built_procedure
    if not isinstance(smoothed, Routed) or routing is None:
        assert isinstance(smoothed, Smoothed)
        return [Part(smoothed, tuple(records), procedure)]
    whole = [(record, _certificate(record)) for record in records]
    router, member = (Procedure.from_description(p) for p in (routing.router_procedure, routing.member_procedure))
    routes = tuple(_with(record, of_router(found)) for record, found in whole)
    parts = [Part(smoothed.router, routes, OfRouter(router), "router")]
    for number, (strength, one) in enumerate(smoothed.members.items()):
        asked = tuple(
            _with(record, of_member(found))
            for record, found in whole
            if found.route is not None and found.route.label == number and found.answers
        )
        if asked:
            parts.append(Part(one, asked, member, f"{one.noise.strength_name} {strength:g}"))
    return parts


def plainly(certificate: Certificate) -> Certificate:
    """With purposes as they are without a router."""
    answers = tuple((purpose.removeprefix(PREFIX), tally) for purpose, tally in certificate.answers)
    return replace(certificate, answers=answers)


def _certificate(record: Record) -> Certificate:
    if record.certificate is None or record.certificate.route is None:
        raise InputError(f"input {record.index} has no certificate of a routed classifier to compare")
    return record.certificate


def _with(record: Record, part: Certificate) -> Record:
    return replace(record, prediction=part.label, radius=part.radius, draws=part.draws, claim=part)
