"""Whether a run holds, without its model: every claim is computed again from the votes beside it.

What this shows is that the claims follow from the recorded votes by the recorded procedure. That the votes are those
of a model is for whoever has the model (`audit.redraw`). It says nothing about runs that were made and not shown:
a run whose seed or settings were chosen for its luck holds too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from smoothcert.audit.per_input import searched, weighed
from smoothcert.audit.routed import check_choice, check_routing, replay_routed
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import loaded_plugins
from smoothcert.noise import NOISES, Noise
from smoothcert.procedures import ABSTAIN, PROCEDURES, Certificate, Procedure
from smoothcert.procedures.conversation import MOST_DRAWS
from smoothcert.procedures.replay import DrawsError, replay
from smoothcert.runs import Entry, Finding, Record, Run

SAME = 1e-12  # relative: what another version of numpy or scipy may change in the last digits
PRINTED = 1.5e-6  # and what that may change in a number of six digits after the point
# What a procedure returns, compared one by one so that each is found by its name.
CLAIMS = ("label", "radius", "p_lower", "p_upper", "alpha", "norm", "decisions", "procedure", "reason")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Audit:
    """What was found, and the records that can be looked at further: one per planned input, in order."""

    findings: tuple[Finding, ...]
    records: tuple[Record, ...]
    planned: int
    exact: bool  # numbers were compared to the last bit, else to 1e-12
    of_memory: frozenset[int] = frozenset()  # inputs whose answer their own draws do not show: a memory's

    def holding(self, more: Sequence[Finding] = (), *, memory_asked: bool = False) -> int:
        """How many planned inputs are recorded without any finding, here or in `more`.

        What rests on regions of a memory counts only where the memory was asked.
        """
        found = {finding.index for finding in (*self.findings, *more)}
        unknown = frozenset() if memory_asked else self.of_memory
        return sum(record.index not in found and record.index not in unknown for record in self.records)


def audit_run(run: Run) -> Audit:
    """Compute every bound, boundary decision and radius of a run again from its votes, and check the plan.

    Numbers must be equal to the last bit where the run names the numpy and scipy that are here, else up to 1e-12: all
    that a lie about versions can gain. Nothing raises for what is in the records: all that does not hold is listed.
    """
    _refuse_without_plugins(run)
    exact = all(run.made.versions.get(name) == version(name) for name in ("numpy", "scipy"))
    findings = list(_plan(run))
    truth = dict(zip(run.planned, run.config.labels, strict=True))
    claims = _Claims(run, _procedure(run, findings), exact)
    records: dict[int, Record] = {}
    last = 0
    for entry in run.entries():
        last = entry.line
        findings += entry.findings
        if entry.record is None:
            continue
        try:
            wrong = list(claims.check(entry, entry.record))
        except InputError as error:
            findings.append(Finding("damaged", str(error), entry.record.index, entry.line))
            continue
        findings += [Finding(check, sentence, entry.record.index, entry.line) for check, sentence in wrong]
        if entry.record.label != truth.get(entry.record.index, entry.record.label):
            sentence = f"the true label is recorded as {entry.record.label}, planned with {truth[entry.record.index]}"
            findings.append(Finding("truth", sentence, entry.record.index, entry.line))
        records.setdefault(entry.record.index, entry.record)
    if run.torn:
        sentence = "the last line has no end; resume the run to certify that input again"
        findings.append(Finding("torn", sentence, line=last + 1))
    recorded = [records[index] for index in run.planned if index in records]
    if run.config.memory is not None and list(records) != [record.index for record in recorded]:
        findings.append(Finding("order", "the records are not in the order of the plan, in which inputs were inserted"))
    findings += _shared_inputs(run, recorded, by_label=claims.by_label)
    missing = (index for index in run.planned if index not in records)
    findings += [Finding("missing", "it is planned and not recorded", index) for index in missing]
    of_memory = frozenset(record.index for record in recorded if not _shown_by_draws(record))
    return Audit(tuple(findings), tuple(recorded), len(run.planned), exact, of_memory)


def _refuse_without_plugins(run: Run) -> None:
    """Refuse a run that needs a plug-in which was not loaded: it may well hold, and nobody can tell here."""
    needed = [plugin.file for plugin in run.config.plugins if plugin not in loaded_plugins()]
    if needed and not (
        str(run.config.noise.get("name")) in NOISES and str(run.config.procedure.get("name")) in PROCEDURES
    ):
        raise InputError(
            f"{run.path} was made with the plug-in {' and '.join(needed)}, which is not loaded; give it with --plugin"
        )


def _plan(run: Run) -> Iterator[Finding]:
    """What the configuration says of itself and cannot be."""
    config = run.config
    try:
        whole = tuple(config.data.subset.indices(config.data.size)) == run.planned
    except (InputError, OverflowError, MemoryError):
        whole = False
    if not whole:
        yield Finding("subset", "the planned inputs are not the subset of the data that the configuration names")
    if not 1 <= config.data.distinct <= len(run.planned):
        sentence = f"{config.data.distinct} of the {len(run.planned)} planned inputs are said to be different"
        yield Finding("distinct", sentence)
    if config.key is not None and not config.key.holds(config.procedure, config.seed):
        yield Finding("key", "the seed does not follow from the secret key whose hash was published")
    named = config.model.fingerprint
    if named is not None and named != config.fingerprint:
        yield Finding("model", f"the model is named {named[:12]}..., the classifier {str(config.fingerprint)[:12]}...")
    yield from check_routing(run)
    try:
        _ = config.built_noise
    except InputError as error:
        yield Finding("noise", f"the configuration has no noise that can be ({error})")


def _procedure(run: Run, findings: list[Finding]) -> Procedure | None:
    """The run's procedure, or None with a finding."""
    try:
        procedure = run.config.built_procedure
        most = procedure.most_draws()
    except (InputError, ArithmeticError) as error:
        findings.append(Finding("procedure", f"the configuration has no procedure that can be ({error})"))
        return None
    if most > MOST_DRAWS:
        findings.append(Finding("procedure", f"the procedure takes up to {most} draws per input, which nobody makes"))
        return None
    return procedure


def _shown_by_draws(record: Record) -> bool:
    """Whether the draws of the input itself show what is claimed there, whatever a memory holds."""
    said = None if record.claim is None else record.claim.from_draws
    return said is None or record.abstained or (said.label == record.prediction and record.radius <= said.radius)


@dataclass
class _Claims:
    """Checks what records say against what their votes say."""

    run: Run
    procedure: Procedure | None
    exact: bool

    def __post_init__(self) -> None:
        self._noises: dict[str, Noise] = {}

    @property
    def by_label(self) -> bool:
        """Whether the label decided which draws were made."""
        return self.procedure is not None and self.procedure.for_test_data

    def check(self, entry: Entry, record: Record) -> Iterator[tuple[str, str]]:
        """What does not hold about one record."""
        config, certificate = self.run.config, record.certificate
        assert certificate is not None
        classes = certificate.answers[0][1].num_classes if certificate.answers else config.num_classes
        if entry.text + b"\n" != self.run.line(record, _previous(entry)):
            yield "form", "the line is not written as certify writes it"
        if record.labelled and not 0 <= record.label < classes:
            yield "truth", f"the true label is {record.label}, which is none of {classes} classes"
        if classes != config.num_classes:
            yield "num_classes", f"the votes are of {classes} classes, the run is of {config.num_classes}"
        if record.seconds is None or not 0 <= record.seconds <= 1e9:
            yield "seconds", f"it took {record.seconds} seconds, which cannot be"
        if certificate.scope is not config.scope:
            said, holds = certificate.scope.value, config.scope.value
            yield "scope", f"the scope is {said!r}, that of the run's settings is {holds!r}"
        yield from searched(self.run, certificate)
        yield from weighed(self.run, certificate)
        yield from self._again(record, certificate)

    def _again(self, record: Record, certificate: Certificate) -> Iterator[tuple[str, str]]:
        if self.procedure is None:
            yield "replay", "the conversation cannot be held again: the run names no procedure that can be"
            return
        routing = self.run.config.routing
        try:
            if routing is None:
                again = replay(certificate, self.procedure.knowing(record.label), self._noise(certificate))
            else:
                again = replay_routed(certificate, self.procedure, routing)
        except DrawsError as error:
            yield "draws", str(error)
        except (ValueError, ArithmeticError, AssertionError) as error:
            yield "replay", f"the conversation cannot be held again ({error})"
        else:
            yield from self._differences(certificate.as_drawn(), again)
            yield from _ruled(certificate)
            if routing is not None and certificate.route is not None and again.route is not None:
                yield from self._differences(certificate.route, again.route, "router's ")
                yield from check_choice(certificate, again, routing)

    def _noise(self, certificate: Certificate) -> Noise:
        key = json.dumps(certificate.noise, sort_keys=True)
        if key not in self._noises:
            self._noises[key] = Noise.from_description(certificate.noise)
        return self._noises[key]

    def _differences(self, old: Certificate, new: Certificate, whose: str = "") -> Iterator[tuple[str, str]]:
        for name in CLAIMS:
            said, holds = getattr(old, name), getattr(new, name)
            if said != holds and (self.exact or not _close(said, holds)):
                yield name, f"{whose}{name} is recorded as {said!r}, its votes give {holds!r}"


def _previous(entry: Entry) -> str:
    """What the line says of the line before it."""
    try:
        return str(json.loads(entry.text)["previous"])
    except (KeyError, TypeError):
        return ""


def _ruled(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Whether a memory may have made this of what the draws said; which regions there were it alone can tell."""
    said = certificate.from_draws
    if said is None:
        return
    if said.alpha is not None and not said.alpha < certificate.alpha:
        yield "alpha", f"alpha is {certificate.alpha!r}, and that of the draws is {said.alpha!r}, which is not smaller"
    if certificate.abstained == (said.region is not None):
        yield "memory", f"class {certificate.label} is claimed, and the region that answers so is {said.region}"
    elif certificate.abstained and said.label != ABSTAIN and said.cut_by is None:
        yield "memory", f"the draws said class {said.label}, and no region is named that took it away"
    elif certificate.cut and said.cut_by is None:
        yield "memory", f"the radius is {certificate.radius!r} of {said.radius!r}, and no region is named that cut it"


def _close(a: object, b: object) -> bool:
    """Equal but for the last digits: of numbers, and of the numbers in a sentence whose words are the same."""
    if isinstance(a, str) and isinstance(b, str):
        numbers = list(zip(NUMBER.findall(a), NUMBER.findall(b), strict=False))
        same_words = NUMBER.split(a) == NUMBER.split(b)
        return same_words and all(x == y or ("." in x and abs(float(x) - float(y)) <= PRINTED) for x, y in numbers)
    if not isinstance(a, float) or not isinstance(b, float):
        return False
    return abs(a - b) <= SAME * max(abs(a), abs(b))


def _said(certificate: Certificate) -> tuple[object, ...]:
    """All answers, a router's included."""
    return certificate.answers, None if certificate.route is None else certificate.route.answers


def _same_draws(one: Certificate, other: Certificate, *, as_far_as_both_go: bool) -> bool:
    """Whether two certificates have the same votes; if not for all draws, then for those that both have."""
    if not as_far_as_both_go:
        return _said(one) == _said(other)
    pairs = zip(one.answers, other.answers, strict=False)
    return all(a == b for a, b in pairs)


def _shared_inputs(run: Run, records: Sequence[Record], *, by_label: bool) -> Iterator[Finding]:
    """An input's name is its content, and decides its noise: so equal names have equal votes, and are known before.

    `by_label`: two labels of one input, of which at most one is right, may have been given different numbers of draws.
    """
    by_name: dict[str, Record] = {}
    repeats = []
    for record in records:
        assert record.certificate is not None
        first = by_name.setdefault(record.certificate.input_id, record)
        if first is not record:
            assert first.certificate is not None
            far = by_label and first.label != record.label
            same = _same_draws(first.certificate, record.certificate, as_far_as_both_go=far)
            repeats.append((first, record, same))
            if len(record.certificate.answers) > len(first.certificate.answers):
                by_name[record.certificate.input_id] = record  # the one that says more
    allowed = len(run.planned) - run.config.data.distinct
    if len(records) == len(run.planned) and len(repeats) < allowed:
        sentence = f"{allowed} of the planned inputs are said to repeat another, {len(repeats)} do"
        yield Finding("distinct", sentence)
    for first, record, same in repeats:
        if not same:
            yield Finding("input_id", f"it is the same input as {first.index}, with other votes", record.index)
        elif len(repeats) > allowed:
            sentence = f"it is the same input as {first.index}, but {allowed} of the planned inputs repeat another"
            yield Finding("input_id", sentence, record.index)
