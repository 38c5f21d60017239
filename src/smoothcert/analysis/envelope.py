"""The best of several results: what their members, or their sigmas, could reach at most if one knew which to take."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.analysis.measures import Share, average_certified_radius, certified_shares, right
from smoothcert.analysis.results import Results, shared, subset_warnings
from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.runs import Record

NAME = "best of each input (UE)"
NO_CLAIM = "takes for each input the result with the largest correct radius, knowing the truth: no classifier does that"


def upper_envelope(results: Sequence[Results]) -> Results:
    """For each input that all results cover, the record with the largest radius among the correct ones.

    It is at least as good as every member at every radius, and so in ACR. It is no claim about any classifier: the
    choice knows the truth. Where no result is right the first one's record stands. The UE of Liu et al. (2021, table
    1), the largest of each *number* over the members, is `largest` and never exceeds this.
    """
    members = _comparable(results)
    best = tuple(max(records, key=_gain) for records in zip(*(member.records for member in members), strict=True))
    names = ", ".join(result.name for result in results)
    # Noise, procedure and cost differ from input to input: they would describe none of the members.
    data, norm = members[0].settings.data, members[0].settings.norm
    settings = Settings(
        data=data if all(member.settings.data == data for member in members) else None,
        norm=norm if all(member.settings.norm == norm for member in members) else None,
        envelope=True,
        note=f"{NO_CLAIM} ({names})",
    )
    return Results(NAME, tuple(_bare(record) for record in best), settings=settings)


def largest(results: Sequence[Results], radii: Sequence[float]) -> tuple[float, tuple[Share, ...]]:
    """The largest ACR and, at each radius, the largest certified accuracy of any member (Liu et al. 2021, UE)."""
    members = _comparable(results)
    curves = [certified_shares(member.records, radii) for member in members]
    shares = tuple(max(column, key=lambda share: share.count) for column in zip(*curves, strict=True))
    return max(average_certified_radius(member.records) for member in members), shares


def _comparable(results: Sequence[Results]) -> list[Results]:
    if len(results) < 2:
        raise InputError("an envelope needs at least two results; give more runs or logs")
    members = shared(results)
    if doubts := subset_warnings(members):
        raise InputError(f"there is no envelope: {doubts[0]}")
    return members


def _gain(record: Record) -> tuple[bool, float]:
    return (True, record.radius) if right(record) else (False, 0.0)


def _bare(record: Record) -> Record:
    return Record(record.index, record.label, record.prediction, record.radius)
