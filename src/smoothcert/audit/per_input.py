"""Whether what a run chose for each input, a strength or weights, can have been chosen: without the model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from smoothcert.core.errors import InputError
from smoothcert.noise.base import noise_kind
from smoothcert.procedures import Certificate
from smoothcert.runs import Run

SAME = 1e-12  # relative: the last digits of a sum


def searched(run: Run, certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Whether the run's search can end at this strength, from where it starts.

    That the search did end there is for whoever has the model.
    """
    if run.config.sigma_search is None:
        return
    # The engine has torch: only runs with a strength per input wait for it.
    from smoothcert.engine.sigma import SigmaSearch  # noqa: PLC0415

    kind = noise_kind(certificate.noise)
    if kind is None:
        return  # it cannot be replayed either, and is said there
    name = kind.strength_name
    try:
        search = SigmaSearch.from_description(run.config.sigma_search)
        can_be = search.can_end(float(certificate.noise[name]), float(run.config.noise[name]))
    except (KeyError, TypeError, ValueError, OverflowError, InputError):
        can_be = False
    if not can_be:
        yield name, f"{name} is {certificate.noise.get(name)!r}, where the search of the run cannot end"


def weighed(run: Run, certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Whether the weights can be those of an ensemble at one input, where the run has weights per input at all."""
    about, found = run.config.model, certificate.weights
    if run.config.own_weights is None:
        can_be = found is None
    else:
        as_many = found is not None and (about.ensemble is None or about.members in (None, len(found)))
        can_be = found is not None and as_many and math.isclose(math.fsum(found), 1, rel_tol=SAME)
    if not can_be:
        yield "weights", f"the weights are {found!r}, which those of the run's members at an input cannot be"
