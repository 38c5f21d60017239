"""What a router did, in words: whom it chose, and what its own radius cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from smoothcert.noise import Noise
from smoothcert.procedures import ABSTAIN
from smoothcert.runs import Record, RoutingConfig
from smoothcert.stats.rounding import down


def routes(records: Sequence[Record], routing: RoutingConfig) -> str:
    """How often each strength was chosen, how often none, and how often the router's radius was the smaller one."""
    chosen: Counter[int] = Counter()
    limited, answered = 0, 0
    for record in records:
        certificate = record.certificate
        if certificate is None or certificate.route is None:
            continue
        chosen[certificate.route.label] += 1
        answered += not record.abstained
        limited += not record.abstained and record.radius == certificate.route.radius
    strengths = ", ".join(f"{strength:g} {chosen[k]} times" for k, strength in enumerate(routing.strengths))
    share = down(100 * limited / answered, 0) if answered else "0"
    return (
        f"routed: {strengths}, no choice {chosen[ABSTAIN]} times; the choice's own radius is the one claimed at "
        f"{limited} of {answered} certified inputs ({share}%); p_A, where it is shown, is the chosen classifier's "
        "and not the router's"
    )


def choice_certain(records: Sequence[Record]) -> list[Record]:
    """The records with the radius of the chosen member alone: what they would be if every choice held everywhere."""
    return [_certain(record) for record in records]


def _certain(record: Record) -> Record:
    claim = record.certificate
    if claim is None or claim.route is None or record.abstained:
        return record
    radius = Noise.from_description(claim.noise).radius(claim.p_lower, claim.p_upper)
    return replace(record, radius=radius, claim=None)
