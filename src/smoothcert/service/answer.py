"""What is answered: the certificate without its secret, and where it stands in the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcert.procedures import Certificate


@dataclass(frozen=True)
class Answer:
    """A certificate for one client.

    Args:
        certificate: its seed is secret, and `key` the hash of the secret.
        class_name: None where it abstains.
        receipt: the digest of its line in the run. None: there is no such line, because it was not decided in time.
        num_classes: that are told apart.
    """

    certificate: Certificate
    class_name: str | None
    receipt: str | None
    num_classes: int

    @property
    def votes(self) -> tuple[int, ...]:
        """Votes per class of the draws that decided; zeros where a router abstained, and nobody else was asked."""
        return self.certificate.votes or (0,) * self.num_classes

    @property
    def route(self) -> dict[str, Any] | None:
        """Of a routed classifier: whom its router chose, by which votes, and how far that holds."""
        route = self.certificate.route
        if route is None:
            return None
        return {
            "label": route.label,
            "radius": route.radius,
            "p_lower": route.p_lower,
            "votes": list(route.votes),
            "abstained": route.abstained,
            "reason": route.reason,
            "noise": dict(route.noise),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without the seed."""
        one = self.certificate
        return {
            "label": one.label,
            "class_name": self.class_name,
            "radius": one.radius,
            "norm": one.norm,
            "p_lower": one.p_lower,
            "votes": list(self.votes),
            "abstained": one.abstained,
            "reason": one.reason,
            "scope": one.scope.value,
            "alpha": one.alpha,
            "draws": one.draws,
            "procedure": dict(one.procedure),
            "noise": dict(one.noise),
            "input_id": one.input_id,
            "route": self.route,
            "seed": {"kind": "secret", "hash": one.key},
            "receipt": self.receipt,
            "sentence": str(one),
        }
