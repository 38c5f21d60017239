"""Whether the votes of a run are those of its model: drawn again, they are the same (`audit.fresh`: other draws).

What follows from the votes is checked without the model (`audit.claims`).
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from scipy import stats

from smoothcert.audit.parts import Part, parts_of
from smoothcert.audit.rebuild import check_data, other_circumstances, refuse_other_data
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.engine import Routed, SigmaSearch, Smoothed
from smoothcert.engine.weights import NEAR, SAME, apart
from smoothcert.noise import Noise
from smoothcert.procedures import (
    ABSTAIN,
    Ask,
    Certificate,
    Conversation,
    Geometry,
    Procedure,
)
from smoothcert.procedures.replay import DrawsError, replay
from smoothcert.runs import Finding, Record, Run

ROUNDING = 1e-3
"""Where the model is run otherwise, so many of the draws may vote otherwise: more is no rounding of scores."""

SEARCHED = 0.05
"""And for so many of the inputs the search may find another strength: near ties fall otherwise, and they are rare."""

LEVEL = 1e-3
"""Probability that an honest run fails a statistical comparison, over all of its inputs."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Redrawn:
    """What drawing again found. `moved` of `draws` votes fell otherwise and are put down to rounding."""

    findings: tuple[Finding, ...]
    otherwise: tuple[str, ...]  # how the model was run otherwise; empty: votes had to be the same to the last one
    moved: int
    draws: int


def sample_records(records: Sequence[Record], share: float, seed: int) -> list[Record]:
    """A random share of the records, at least one, in their order: what an auditor draws again."""
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1, got {share}")
    count = min(len(records), math.ceil(share * len(records)))
    rows = sorted(random.Random(seed).sample(range(len(records)), count))
    return [records[row] for row in rows]


def redraw(
    run: Run, records: Sequence[Record], smoothed: Smoothed | Routed, data: Dataset, on_draws: Progress = lambda _: None
) -> Redrawn:
    """Draw every recorded answer again with the run's model (`rebuild`) and seed, and compare.

    Votes must be the same to the last one where the model is run as it was. Where its torch, device or processor
    differ, one in a thousand may fall otherwise, if the votes drawn here make the same claim or a larger one, and if
    votes fell in both directions, as rounding makes them. Other data are refused. Inputs with a strength of their own
    are drawn with it, and the search must find it again, up to near ties at one in twenty.
    """
    refuse_other_data(run, data)
    otherwise = tuple(other_circumstances(run, smoothed))
    strange = (record.index for record in records if not 0 <= record.index < len(data))
    findings = [Finding("data", f"the data have {len(data)} inputs and not this one", index) for index in strange]
    findings += check_data(run, data)
    moved = draws = 0
    for part in parts_of(run, records, smoothed):
        found = _redraw_part(part, data, otherwise, on_draws)
        findings += [_named(finding, part.name) for finding in found.findings]
        moved, draws = moved + found.moved, draws + found.draws
    if smoothed.search is not None and isinstance(smoothed, Smoothed):
        findings += _strange_noises(records)
        findings += _searched(smoothed.search, records, smoothed, data)
    if isinstance(smoothed, Smoothed) and smoothed.weights is not None:
        findings += _weighed(records, smoothed, data)
    return Redrawn(tuple(findings), otherwise, moved, draws)


def _named(finding: Finding, part: str) -> Finding:
    return replace(finding, sentence=f"{part}: {finding.sentence}") if part else finding


def _redraw_part(part: Part, data: Dataset, otherwise: tuple[str, ...], on_draws: Progress) -> Redrawn:
    """What one smoothed classifier has drawn, drawn again."""
    findings: list[Finding] = []
    moved = draws = raised = lowered = 0
    for record, again in _draw_recorded(part, data, on_draws):
        old = drawn_certificate(record)
        draws += again.draws
        findings += [Finding(check, sentence, record.index) for check, sentence in _beside(record, old, again, data)]
        fell = _moved(old, again)
        if fell and (not otherwise or fell > max(1, ROUNDING * again.draws)):
            findings.append(Finding("votes", _first_difference(old, again), record.index))
            continue
        moved += fell
        label = old.candidate
        gained = [a.votes[label] - b.votes[label] for (_, a), (_, b) in zip(old.answers, again.answers, strict=True)]
        raised, lowered = raised + sum(g for g in gained if g > 0), lowered - sum(g for g in gained if g < 0)
        if fell and (sentence := _claims_more(old, again, part.procedure.knowing(record.label))):
            findings.append(Finding("votes", sentence, record.index))
    if raised and stats.binom.sf(raised - 1, raised + lowered, 0.5) < LEVEL:
        sentence = f"{raised} votes for the claimed classes are recorded that fell otherwise here, and {lowered} the "
        findings.append(Finding("votes", sentence + "other way round: rounding has no favourite"))
    return Redrawn(tuple(findings), otherwise, moved, draws)


def certify_records(
    records: Sequence[Record], smoothed: Smoothed, data: Dataset, procedure: Procedure, on_draws: Progress
) -> Iterator[tuple[Record, Certificate]]:
    """Each record that the data have an input for, with what the procedure says of it now, under the record's noise."""
    there = [record for record in records if 0 <= record.index < len(data)]
    if not there:
        return
    noises = weights = None
    if smoothed.search is not None:
        there, noises = _own_noises(there)
    if smoothed.weights is not None:
        there = [record for record in there if drawn_certificate(record).weights is not None]
        noises = None if noises is None else _own_noises(there)[1]
        weights = [drawn_certificate(record).weights or () for record in there]
    if not there:
        return
    inputs = data.tensors([record.index for record in there])
    for row, certificate in smoothed.certifying(inputs, procedure, noises=noises, weights=weights, on_draws=on_draws):
        yield there[row], certificate


def _own_noises(records: Sequence[Record]) -> tuple[list[Record], list[Noise]]:
    """Each record's own noise; those whose noise cannot be are left out: see `_strange_noises`."""
    found = [(record, noise) for record in records if (noise := _own_noise(record)) is not None]
    return [record for record, _ in found], [noise for _, noise in found]


def _own_noise(record: Record) -> Noise | None:
    try:
        return Noise.from_description(drawn_certificate(record).noise)
    except InputError:
        return None


def _strange_noises(records: Sequence[Record]) -> Iterator[Finding]:
    """Noises that nobody can draw, such as one too strong for its grid: their votes are nobody's."""
    for record in records:
        if _own_noise(record) is None:
            yield Finding(
                "noise", f"{dict(drawn_certificate(record).noise)} is no noise that can be drawn", record.index
            )


def _searched(search: SigmaSearch, records: Sequence[Record], smoothed: Smoothed, data: Dataset) -> list[Finding]:
    """Strengths that the search does not find: chosen with a look at the draws that bound, they would prove nothing.

    What rounding may have done, as far as the search itself says that it may (`agrees`), is let pass at few inputs
    only: who may move every strength by a step chooses, too. What the run says of its machine changes nothing here.
    """
    there, recorded = _own_noises([record for record in records if 0 <= record.index < len(data)])
    again = smoothed.noises(data.tensors([record.index for record in there])) if there else []
    wrong, rounded = list[Finding](), list[Finding]()
    for record, old, new in zip(there, recorded, again, strict=True):
        if type(old) is type(new) and search.same(old.strength, new.strength):
            continue
        sentence = f"{new.strength_name} is recorded as {old.strength!r}, the search finds {new.strength!r}"
        may_be = search.agrees(old.strength, new.strength)
        (rounded if may_be else wrong).append(Finding(new.strength_name, sentence, record.index))
    return wrong + (rounded if len(rounded) > max(1, SEARCHED * len(there)) else [])


def _weighed(records: Sequence[Record], smoothed: Smoothed, data: Dataset) -> list[Finding]:
    """Weights that the run's search does not find at an input; rounding is let pass as for strengths."""
    there = [record for record in records if 0 <= record.index < len(data)]
    again = smoothed.own_weights(data.tensors([record.index for record in there])) if there else []
    wrong, rounded = list[Finding](), list[Finding]()
    for record, new in zip(there, again, strict=True):
        old = drawn_certificate(record).weights or ()
        if (gap := apart(old, new)) <= SAME:
            continue
        sentence = f"the weights are recorded as {list(old)}, the search finds {list(new)}"
        (rounded if gap <= NEAR else wrong).append(Finding("weights", sentence, record.index))
    return wrong + (rounded if len(rounded) > max(1, SEARCHED * len(there)) else [])


def drawn_certificate(record: Record) -> Certificate:
    """What the draws said."""
    if record.certificate is None:
        raise InputError(f"input {record.index} has no certificate: a public log keeps no votes to compare")
    return record.certificate.as_drawn()


def _beside(record: Record, old: Certificate, again: Certificate, data: Dataset) -> Iterator[tuple[str, str]]:
    """What the data set says about the record."""
    truth = int(data.labels[record.index])
    if record.label != truth:
        yield "truth", f"the true label is recorded as {record.label}, in the data it is {truth}"
    if old.input_id != again.input_id:
        yield "input_id", "the certificate is of another input than the data have there"
    if old.noise != again.noise:
        yield "noise", f"the noise is recorded as {dict(old.noise)}, around this input it is {dict(again.noise)}"


@dataclass(frozen=True)
class _Recorded(Procedure):
    """Asks for what was asked for, whatever is answered: nothing that is recorded stays undrawn."""

    name: ClassVar[str] = "recorded"
    asks: tuple[Ask, ...]

    def certify(self, noise: Geometry) -> Conversation[Certificate]:
        """The answers are all that is wanted."""
        for ask in self.asks:  # noqa: UP028 (`yield from` would send the answers to the tuple)
            yield ask
        return Certificate(
            label=ABSTAIN, radius=0.0, p_lower=0.0, norm=noise.norm, alpha=0.5, reason="drawn again", procedure={}
        )

    def most_draws(self) -> int:
        """What was asked for."""
        return sum(ask.n for ask in self.asks)

    def fixed_draws(self) -> int:
        """The same."""
        return self.most_draws()


def _draw_recorded(part: Part, data: Dataset, on_draws: Progress) -> Iterator[tuple[Record, Certificate]]:
    """Every record with the answers to its own asks; records that asked for the same are drawn together."""
    alike: dict[tuple[Ask, ...], list[Record]] = {}
    for record in part.records:
        alike.setdefault(_asks(drawn_certificate(record), part.beta), []).append(record)
    for asks, group in alike.items():
        yield from certify_records(group, part.smoothed, data, _Recorded(asks), on_draws)


def _asks(recorded: Certificate, beta: float | None) -> tuple[Ask, ...]:
    """What a recorded conversation asked for; what it asked for later may be drawn ahead."""
    asks, later = deque[Ask](), Counter[str]()
    for purpose, tally in reversed(recorded.answers):
        asks.appendleft(Ask(purpose, tally.draws, beta, later[purpose]))
        later[purpose] += tally.draws
    return tuple(asks)


def _moved(old: Certificate, again: Certificate) -> int:
    """How many votes fell otherwise; 1 where only scores did."""
    pairs = [(a, b) for (_, a), (_, b) in zip(old.answers, again.answers, strict=True)]
    if any(a.num_classes != b.num_classes for a, b in pairs):
        return again.draws
    moved = sum(sum(abs(i - j) for i, j in zip(a.votes, b.votes, strict=True)) // 2 for a, b in pairs)
    return moved or int(old.answers != again.answers)


def _claims_more(old: Certificate, again: Certificate, procedure: Procedure) -> str:
    """Why the votes that were drawn here do not carry the recorded claim, or ""."""
    if old.abstained and procedure.for_test_data:  # a choice that falls otherwise here would have gone on
        return ""
    try:
        fresh = replay(replace(old, answers=again.answers), procedure, Noise.from_description(old.noise))
    except DrawsError:
        return "with the votes that fall otherwise here the procedure would have gone on or stopped elsewhere"
    except InputError as error:
        return f"the recorded claim cannot be computed from the votes that are drawn here ({error})"
    if old.abstained or (fresh.label == old.label and fresh.radius >= old.radius):
        return ""
    return f"radius {old.radius!r} is recorded, the votes that are drawn here give {fresh.radius!r}"


def _first_difference(old: Certificate, again: Certificate) -> str:
    for (purpose, a), (_, b) in zip(old.answers, again.answers, strict=False):
        for label, (recorded, drawn) in enumerate(zip(a.votes, b.votes, strict=False)):
            if recorded != drawn:
                return f"class {label} is recorded with {recorded} votes ({purpose}), drawing again gives {drawn}"
        if a != b:
            return f"the scores or classes are recorded otherwise than drawing again gives them ({purpose})"
    return "the votes are recorded otherwise than drawing again gives them"
