"""Whether a run holds, without its model: every claim is computed again from the votes beside it.

What this shows is that the claims follow from the recorded votes by the recorded procedure. That the votes are those
of a model is for whoever has the model (`audit.redraw`). It says nothing about runs that were made and not shown:
a run whose seed or settings were chosen for its luck holds too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import scipy

from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.noise.base import noise_kind
from smoothcert.procedures import ABSTAIN, Certificate, Procedure, Scope
from smoothcert.procedures.conversation import MOST_DRAWS
from smoothcert.procedures.replay import DrawsError, replay
from smoothcert.runs import Entry, Finding, Record, Run

SAME = 1e-12  # relative: what another version of numpy or scipy may change in the last digits
NEEDED = (
    "model", "classifier", "num_classes", "noise", "procedure", "fixed_draws", "seed", "data", "labels", "versions"
)  # fmt: skip
# What a procedure returns, compared one by one so that each is found by its name.
CLAIMS = ("label", "radius", "p_lower", "p_upper", "alpha", "norm", "decisions", "procedure", "reason")


@dataclass(frozen=True)
class Audit:
    """What was found, and the records that can be looked at further: one per planned input, in order."""

    findings: tuple[Finding, ...]
    records: tuple[Record, ...]
    planned: int
    exact: bool  # numbers were compared to the last bit, else to 1e-12

    def holding(self, more: Sequence[Finding] = ()) -> int:
        """How many planned inputs are recorded without any finding, here or in `more`."""
        found = {finding.index for finding in (*self.findings, *more)}
        return sum(record.index not in found for record in self.records)


def audit_run(run: Run) -> Audit:
    """Compute every bound, boundary decision and radius of a run again from its votes, and check the plan.

    Exact equality is asked for where numpy and scipy are those of the run, else equality up to 1e-12. Nothing raises
    for what is in the records: all that does not hold is listed.
    """
    exact = _versions(run) == {"numpy": numpy.__version__, "scipy": scipy.__version__}
    findings = list(_plan(run))
    truth = _truth(run, findings)
    procedure = _procedure(run, findings)
    records: dict[int, Record] = {}
    last = 0
    for entry in run.entries():
        last = entry.line
        findings += entry.findings
        if entry.record is None:
            continue
        findings += [
            Finding(check, sentence, entry.record.index, entry.line)
            for check, sentence in _claims(run, procedure, entry, entry.record, exact=exact)
        ]
        if entry.record.label != truth.get(entry.record.index, entry.record.label):
            sentence = f"the true label is recorded as {entry.record.label}, planned with {truth[entry.record.index]}"
            findings.append(Finding("truth", sentence, entry.record.index, entry.line))
        records.setdefault(entry.record.index, entry.record)
    if run.torn:
        sentence = "the last line has no end; resume the run to certify that input again"
        findings.append(Finding("torn", sentence, line=last + 1))
    recorded = [records[index] for index in run.planned if index in records]
    if "memory" in run.config and list(records) != [record.index for record in recorded]:
        findings.append(Finding("order", "the records are not in the order of the plan, in which inputs were inserted"))
    findings += _shared_inputs(run, recorded)
    missing = (index for index in run.planned if index not in records)
    findings += [Finding("missing", "it is planned and not recorded", index) for index in missing]
    return Audit(tuple(findings), tuple(recorded), len(run.planned), exact)


def _versions(run: Run) -> dict[str, Any]:
    versions = run.config.get("versions")
    return {name: versions.get(name) for name in ("numpy", "scipy")} if isinstance(versions, dict) else {}


def _plan(run: Run) -> Iterator[Finding]:
    """What the configuration says of itself and cannot be."""
    config = run.config
    for name in NEEDED:
        if name not in config:
            yield Finding(name, f"the configuration does not name {name}")
    data = config.get("data")
    try:
        size, subset = data["size"], data["subset"]  # type: ignore[index]
        chosen = range(subset["start"], size, subset["every"])[: subset["limit"]]
        whole = len(chosen) == len(run.planned) and list(chosen) == run.planned
    except (TypeError, KeyError, ValueError, OverflowError):
        whole = False
    if "data" in config and not whole:
        yield Finding("subset", "the planned inputs are not the subset of the data that the configuration names")


def _truth(run: Run, findings: list[Finding]) -> dict[int, Any]:
    """The labels of the planned inputs, by index."""
    labels = run.config.get("labels", [])
    if isinstance(labels, list) and len(labels) == len(run.planned):
        return dict(zip(run.planned, labels, strict=True))
    if "labels" in run.config:
        findings.append(Finding("labels", "the configuration does not have one label per planned input"))
    return {}


def _procedure(run: Run, findings: list[Finding]) -> Procedure | None:
    """The run's procedure, or None with a finding."""
    if "procedure" not in run.config:
        return None
    try:
        procedure = Procedure.from_description(run.config["procedure"])
        most, fixed = procedure.most_draws(), procedure.fixed_draws()
    except (InputError, ArithmeticError) as error:
        findings.append(Finding("procedure", f"the configuration has no procedure that can be ({error})"))
        return None
    if most > MOST_DRAWS:
        findings.append(Finding("procedure", f"the procedure takes up to {most} draws per input, which nobody makes"))
        return None
    if run.config.get("fixed_draws") != fixed:
        said = run.config.get("fixed_draws")
        findings.append(Finding("fixed_draws", f"fixed_draws is {said!r}, the procedure saves against {fixed}"))
    return procedure


def _claims(
    run: Run, procedure: Procedure | None, entry: Entry, record: Record, *, exact: bool
) -> Iterator[tuple[str, str]]:
    """What one record says against what its votes say."""
    certificate = record.certificate
    assert certificate is not None
    classes = certificate.answers[0][1].num_classes
    if entry.text != (json.dumps(record.to_json(), separators=(",", ":")) + "\n").encode():
        yield "form", "the line is not written as certify writes it"
    if not 0 <= record.label < classes:
        yield "truth", f"the true label is {record.label}, which is none of {classes} classes"
    if classes != run.config.get("num_classes", classes):
        yield "num_classes", f"the votes are of {classes} classes, the run is of {run.config['num_classes']}"
    if record.seconds is None or not 0 <= record.seconds <= 1e9:
        yield "seconds", f"it took {record.seconds} seconds, which cannot be"
    own = Scope.OWN if "sigma_search" in run.config else Scope.FIXED
    scope = Scope.MEMORY if "memory" in run.config else own
    if certificate.scope is not scope:
        yield "scope", f"the scope is {certificate.scope.value!r}, that of the run's settings is {scope.value!r}"
    yield from _found(run, certificate)
    if procedure is None:
        yield "replay", "the conversation cannot be held again: the run names no procedure that can be"
        return
    try:
        again = replay(certificate, procedure, Noise.from_description(certificate.noise))
    except DrawsError as error:
        yield "draws", str(error)
    except (ValueError, ArithmeticError, AssertionError) as error:
        yield "replay", f"the conversation cannot be held again ({error})"
    else:
        yield from _differences(certificate.as_drawn(), again, exact=exact)
        yield from _ruled(certificate)


def _found(run: Run, certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Whether the run's search can end at this strength: 2^(k/8), from where it starts not farther than its span.

    That the search did end there is for whoever has the model.
    """
    if "sigma_search" not in run.config:
        return
    # The engine has torch: only runs with a strength per input wait for it.
    from smoothcert.engine.sigma.strength_steps import PER_OCTAVE, nearest, strength  # noqa: PLC0415

    kind = noise_kind(certificate.noise)
    if kind is None:
        return  # it cannot be replayed either, and is said there
    name = kind.strength_name
    try:
        found, k = certificate.noise[name], nearest(certificate.noise[name])
        start, span = math.log2(run.config["noise"][name]), math.log2(run.config["sigma_search"]["span"])
        can_be = math.isclose(found, strength(k), rel_tol=SAME) and abs(k - PER_OCTAVE * start) < PER_OCTAVE * span + 1
    except (KeyError, TypeError, ValueError, OverflowError):
        can_be = False
    if not can_be:
        yield name, f"{name} is {certificate.noise.get(name)!r}, where the search of the run cannot end"


def _ruled(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Whether a memory may have made this of what the draws said; which regions there were it alone can tell."""
    own = certificate.own
    if own is None:
        return
    if certificate.abstained == (own.region is not None):
        yield "memory", f"class {certificate.label} is claimed, and the region that answers so is {own.region}"
    elif certificate.abstained and own.label != ABSTAIN and own.cut_by is None:
        yield "memory", f"the draws said class {own.label}, and no region is named that took it away"
    elif certificate.cut and own.cut_by is None:
        yield "memory", f"the radius is {certificate.radius!r} of {own.radius!r}, and no region is named that cut it"


def _differences(old: Certificate, new: Certificate, *, exact: bool) -> Iterator[tuple[str, str]]:
    for name in CLAIMS:
        said, holds = getattr(old, name), getattr(new, name)
        if said == holds or (not exact and (name == "reason" or _close(said, holds))):
            continue
        yield name, f"{name} is recorded as {said!r}, its votes give {holds!r}"


def _close(a: object, b: object) -> bool:
    if not isinstance(a, float) or not isinstance(b, float):
        return False
    return abs(a - b) <= SAME * max(abs(a), abs(b))


def _shared_inputs(run: Run, records: Sequence[Record]) -> Iterator[Finding]:
    """An input's name is its content, and decides its noise: so equal names have equal votes, and are known before."""
    by_name: dict[str, Record] = {}
    repeats = []
    for record in records:
        assert record.certificate is not None
        first = by_name.setdefault(record.certificate.input_id, record)
        if first is not record:
            assert first.certificate is not None
            repeats.append((first, record, first.certificate.answers == record.certificate.answers))
    data = run.config.get("data")
    distinct = data.get("distinct") if isinstance(data, dict) else None
    allowed = len(run.planned) - distinct if type(distinct) is int else 0
    for first, record, same in repeats:
        if not same:
            yield Finding("input_id", f"it is the same input as {first.index}, with other votes", record.index)
        elif len(repeats) > allowed:
            sentence = f"it is the same input as {first.index}, but {allowed} of the planned inputs repeat another"
            yield Finding("input_id", sentence, record.index)
