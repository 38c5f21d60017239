"""The best of several results, in two senses: the largest of each number (UE), and an oracle that chooses per input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.analysis.measures import Share, asked_shares, average_certified_radius, right
from smoothcert.analysis.results import Results, on_shared_inputs, subset_warnings
from smoothcert.analysis.settings import Settings
from smoothcert.core.errors import InputError
from smoothcert.runs import Record

ORACLE = "oracle (best of each input)"
NO_CLAIM = "takes for each input the result with the largest correct radius, knowing the truth: no classifier does that"


@dataclass(frozen=True)
class UpperEnvelope:
    """The largest ACR and, at each radius, the largest certified accuracy of any member, and whose they are."""

    acr: float
    acr_of: str
    accuracy: tuple[Share | None, ...]  # one per radius; None: no member was asked
    accuracy_of: tuple[str | None, ...]

    name = "upper envelope (UE)"

    def to_json(self, radii: Sequence[float]) -> dict[str, Any]:
        """Each number beside the member that has it. Without intervals: the largest of several numbers has none."""
        shares = zip(radii, self.accuracy, self.accuracy_of, strict=True)
        return {
            "acr": {"value": self.acr, "of": self.acr_of},
            "accuracy": [{"radius": r, "value": None if s is None else s.value, "of": of} for r, s, of in shares],
        }


def upper_envelope(results: Sequence[Results], radii: Sequence[float]) -> UpperEnvelope:
    """UE of the papers' tables: the largest of each number, column by column.

    As in Liu et al. 2021 (SWEEN, tables 1, 3 and 5 to 7: "the largest ACA and ACR among the candidate models") and
    Alfarra et al. 2022 (tables 1 to 3: the best certified accuracy per radius over all sigmas). Each number is some
    member's own, so nothing is chosen per input; that would be `oracle`. Refused unless all cover the same inputs.
    """
    _refuse_few(results)
    if doubts := subset_warnings(results):
        raise InputError(f"there is no envelope: {doubts[0]}")
    acrs = [(average_certified_radius(result.records), result.name) for result in results]
    acr, acr_of = max(acrs, key=lambda pair: pair[0])
    columns = zip(*(asked_shares(result.records, radii) for result in results), strict=True)
    best = [_largest(column, [result.name for result in results]) for column in columns]
    return UpperEnvelope(acr, acr_of, tuple(share for share, _ in best), tuple(of for _, of in best))


def oracle(results: Sequence[Results]) -> Results:
    """For each input that all results cover, the record with the largest radius among the correct ones.

    It is at least as good as every member at every radius, and so in ACR, and above their `upper_envelope`: headroom
    for a method that chooses. It is no claim about any classifier: the choice knows the truth. Where no result is right
    the first one's record stands.
    """
    _refuse_few(results)
    members = on_shared_inputs(results)
    if doubts := subset_warnings(members):
        raise InputError(f"there is no oracle: {doubts[0]}")
    best = tuple(max(records, key=_gain) for records in zip(*(member.records for member in members), strict=True))
    names = ", ".join(result.name for result in results)
    # Noise, procedure and cost differ from input to input: they would describe none of the members.
    data, norm = members[0].settings.data, members[0].settings.norm
    settings = Settings(
        data=data if all(member.settings.data == data for member in members) else None,
        norm=norm if all(member.settings.norm == norm for member in members) else None,
        oracle=True,
        note=f"{NO_CLAIM} ({names})",
    )
    return Results(ORACLE, tuple(_bare(record) for record in best), settings=settings)


def _largest(column: Sequence[Share | None], names: Sequence[str]) -> tuple[Share | None, str | None]:
    known = [(share, name) for share, name in zip(column, names, strict=True) if share is not None]
    return max(known, key=lambda pair: pair[0].count, default=(None, None))


def _refuse_few(results: Sequence[Results]) -> None:
    if len(results) < 2:
        raise InputError("the best of several needs at least two results; give more runs or logs")


def _gain(record: Record) -> tuple[bool, float]:
    return (True, record.radius) if right(record) else (False, 0.0)


def _bare(record: Record) -> Record:
    return Record(record.index, record.label, record.prediction, record.radius)
