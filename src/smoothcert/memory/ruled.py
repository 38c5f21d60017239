"""What the rule makes of a certificate, and what is kept of it beside its region."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.memory.rule import Ruling
from smoothcert.procedures import Certificate, FromDraws, Scope
from smoothcert.procedures.from_draws import is_number
from smoothcert.stats.rounding import down

WHOLE = 1e15  # from here on floats have no decimals to round


def about(certificate: Certificate) -> dict[str, Any]:
    """The certificate behind a region, in short."""
    return {
        "radius": certificate.radius,
        "alpha": certificate.alpha,
        "draws": certificate.draws,
        "noise": dict(certificate.noise),
        "procedure": dict(certificate.procedure),
        # A memory is read by many: of a secret seed it holds what is public.
        **({"seed": certificate.seed} if certificate.key is None else {"key": certificate.key}),
        "input_id": certificate.input_id,
    }


def behind_alpha(content: str) -> float:
    """The allowed probability that the certificate behind a region is false, from what is kept of it (`about`)."""
    try:
        alpha = json.loads(content)["alpha"]
    except (ValueError, KeyError, TypeError, RecursionError):
        alpha = None
    if not is_number(alpha) or not 0 < alpha < 1:
        raise InputError("memory is damaged: a region in it does not say how sure it is; run memory check")
    return float(alpha)


def ruled(
    old: Certificate, ruling: Ruling, region: int | None, classes: Mapping[int, int], alpha: float
) -> Certificate:
    """The certificate as the memory has it, with a reason that says what changed.

    `classes` are those of regions; `alpha` is of the draws behind the region that answers.
    """
    own = None if alpha <= old.alpha else old.alpha
    said = FromDraws(old.label, old.radius, old.reason, region, ruling.cut_by, own)
    new = dataclasses.replace(old, label=ruling.label, radius=ruling.radius, scope=Scope.MEMORY, from_draws=said)
    new = dataclasses.replace(new, alpha=max(alpha, old.alpha))
    reason = old.reason
    if new.overruled:
        reason = f"region {region} of class {new.label} contains it and answers; the draws said {old.label}: {reason}"
    elif new.supplied:
        reason = f"region {region} of class {new.label} contains it and answers; the draws abstained: {reason}"
    elif new.cut and ruling.cut_by is not None:
        radius = down(old.radius, 4) if old.radius < WHOLE else repr(old.radius)
        whole = "nothing is left" if new.abstained else f"cut from {radius}"
        reason = f"{reason}; {whole} beside region {ruling.cut_by} of class {classes[ruling.cut_by]}"
    elif new.radius > old.radius:
        reason = f"{reason}; region {region} reaches further"
    return dataclasses.replace(new, reason=reason)
