"""The conversation of a record, held again: the recorded answers take the engine's part. No model, no new draws."""

from __future__ import annotations

from smoothcert.core.errors import InputError
from smoothcert.procedures import Ask, Certificate, Geometry, Procedure, converse
from smoothcert.stats import Tally
from smoothcert.stats.tally import SCORE_UNIT


class DrawsError(InputError):
    """The recorded answers are not answers to what the procedure asks."""


def replay(certificate: Certificate, procedure: Procedure, geometry: Geometry) -> Certificate:
    """What the procedure claims on the recorded answers; refused (DrawsError) where it asks for others."""
    left = list(certificate.answers)

    def answer(ask: Ask) -> Tally:
        if not left:
            raise DrawsError(f"the procedure asks for {ask.n} draws ({ask.purpose}) more than are recorded")
        purpose, tally = left.pop(0)
        if (purpose, tally.draws) != (ask.purpose, ask.n):
            raise DrawsError(
                f"the procedure asks for {ask.n} draws ({ask.purpose}), recorded are {tally.draws} ({purpose})"
            )
        if (ask.beta is None) != (tally.score_sums is None) or not _possible(tally):
            raise DrawsError(f"the scores of the {ask.n} draws ({ask.purpose}) cannot be")
        return tally

    again = converse(procedure.certify(geometry), answer)
    if left:
        more = sum(tally.draws for _, tally in left)
        raise DrawsError(f"{more} draws more are recorded than the procedure asks for ({left[0][0]})")
    return again


def _possible(tally: Tally) -> bool:
    """Whether scores in [0, 1] that sum to at most 1 per draw can have these sums and squares."""
    if tally.score_sums is None or tally.score_squares is None:
        return True
    unit, n = round(1 / SCORE_UNIT), tally.draws
    pairs = zip(tally.score_sums, tally.score_squares, strict=True)
    return sum(tally.score_sums) <= n * unit and all(s * s <= n * q and q <= s * unit for s, q in pairs)
