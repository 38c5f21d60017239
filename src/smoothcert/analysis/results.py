"""One thing to be analysed: records of a run or of a public log, with what is known and what is doubtful about them."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from smoothcert.analysis.logs import LARGEST, read_log
from smoothcert.analysis.routes import routes
from smoothcert.analysis.settings import Settings
from smoothcert.analysis.subset import describe_subset
from smoothcert.core.errors import InputError
from smoothcert.procedures import Evaluate, Scope
from smoothcert.runs import DataConfig, Record, Run
from smoothcert.runs.evaluations import evaluations
from smoothcert.runs.record import REST

MOST_DRAWS = 2**53  # beyond it a count is no longer exact as a float, and no machine gets there

LOG = "public log"
"""Where results are from that were read from one."""

SIGMA_IN_NAME = re.compile(r"(?:sigma|noise)[_=-]?([0-9]*\.[0-9]+)", re.I)
MOST_SIGMAS = 6.0  # no log has as many draws as a larger radius takes, 1e9 and more

GIVEN_UP = "inputs whose class was chosen wrongly were given up, and stand among the abstentions"
NOT_CLAIMED = {
    Scope.MEMORY: "hold for the classifier that answers through its memory; they do not claim anything about the "
    "classifier without that memory",
    Scope.OWN: "are of this input's own classifier, which differs from input to input; they do not claim that any one "
    "classifier is robust",
}


@dataclass(frozen=True)
class Results:
    """Records under a name, and what is known about them."""

    name: str
    records: tuple[Record, ...]
    planned: int | None = None  # how many inputs the run set out to certify; None: not known
    settings: Settings = field(default_factory=Settings)
    warnings: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()  # empty: not known

    @property
    def indices(self) -> set[int]:
        """The inputs that are recorded."""
        return {record.index for record in self.records}

    @property
    def subset(self) -> str:
        """Which inputs these are, in words."""
        return describe_subset(self.indices)

    @property
    def unlabelled(self) -> bool:
        """Nobody knows the truth about an input: what counts is that it is certified, as whatever class."""
        return not all(record.labelled for record in self.records)

    @property
    def norm(self) -> str | None:
        """The norm that the radii are measured in, if known."""
        return self.settings.norm

    @property
    def note(self) -> str | None:
        """What a reader of the numbers should know."""
        return self.settings.note


def read(path: str | Path) -> Results:
    """Read a run folder or a public TSV log, gzipped or not; anything else is refused with one sentence (InputError).

    Guarantees at least one record, no input twice, and radii between 0 and 1e9. What is unfinished, truncated or of
    restricted meaning stands in `warnings`.
    """
    path = Path(path)
    name = " ".join((path.name or path.resolve().name or "results").split())
    if path.is_dir():
        return _read_run(path, name)
    if not path.is_file():
        raise InputError(f"{path} does not exist; give a run folder or a TSV log")
    log = read_log(path)
    settings = Settings(source=LOG, log_sigma=_sigma_in(path.name, log.records), note=log.note)
    return Results(name.removesuffix(".gz").removesuffix(".tsv"), log.records, settings=settings, warnings=log.warnings)


def _sigma_in(name: str, records: Sequence[Record]) -> float | None:
    """The sigma that the name of a log says, as in cohen_sigma0.25.tsv, where the radii can be of it."""
    said = SIGMA_IN_NAME.findall(name)
    if len(said) != 1 or not float(said[0]) > 0:
        return None
    return float(said[0]) if max(record.radius for record in records) <= MOST_SIGMAS * float(said[0]) else None


def read_all(paths: Sequence[str | Path]) -> list[Results]:
    """Read several, and lengthen equal names by the folder they lie in until they differ."""
    return told_apart([read(path) for path in paths], paths)


def told_apart(results: Sequence[Results], paths: Sequence[str | Path]) -> list[Results]:
    """What was read from these paths, with equal names lengthened by the folder they lie in until they differ."""
    parents = [list(reversed(Path(path).resolve().parts[:-1])) for path in paths]
    names = [result.name for result in results]
    depth = 0
    while len(set(names)) < len(names) and depth < max(map(len, parents)):
        count = Counter(names)
        for i, name in enumerate(names):
            if count[name] > 1 and depth < len(parents[i]):
                names[i] = f"{parents[i][depth]}/{name}"
        depth += 1
    if len(set(names)) < len(names):
        twice = next(path for path, name in zip(paths, names, strict=True) if names.count(name) > 1)
        raise InputError(f"{twice} was given twice; give each run or log once")
    return [dataclasses.replace(result, name=name) for result, name in zip(results, names, strict=True)]


def subset_warnings(results: Sequence[Results]) -> list[str]:
    """What keeps these results from being a comparison: other inputs, other labels, other data, other norms."""
    if len(results) < 2:
        return []
    warnings = [*_different_settings(results)]
    subsets = [result.indices for result in results]
    common = set.intersection(*subsets)
    if any(subset != common for subset in subsets):
        sizes = ", ".join(f"{result.name}: {len(result.records)}" for result in results)
        way = "compare them with --shared" if common else "they cannot be compared"
        warnings.append(f"the results cover different inputs ({sizes}); {len(common)} are shared by all: {way}")
    return warnings + _different_labels(results)


def on_shared_inputs(results: Sequence[Results]) -> list[Results]:
    """The same results on the inputs that all of them cover, in the order of the indices: row i is one input in all."""
    if not results:
        return []
    common = set.intersection(*(result.indices for result in results))
    if not common:
        raise InputError("the results share no input, so nothing is left to compare; give runs of the same inputs")
    return [_restricted(result, common) for result in results]


def _restricted(result: Results, indices: Collection[int]) -> Results:
    kept = tuple(sorted((r for r in result.records if r.index in indices), key=lambda record: record.index))
    if len(kept) == len(result.records):
        return dataclasses.replace(result, records=kept)
    words = f"{len(kept)} shared inputs of {len(result.records)}"
    settings = dataclasses.replace(result.settings, restricted=words)
    return dataclasses.replace(result, records=kept, planned=None, settings=settings)


def _different_settings(results: Sequence[Results]) -> list[str]:
    different = {}
    if any(other_data(a, b) for a, b in combinations(results, 2)):
        different["data sets"] = {result.name: _in_words(data) for result in results if (data := result.settings.data)}
    norms = {result.name: result.norm for result in results if result.norm is not None}
    if len(set(norms.values())) > 1:
        different["norms"] = norms
    return [
        f"the results are of different {what} ({', '.join(f'{name}: {value}' for name, value in known.items())}); "
        "they cannot be compared"
        for what, known in different.items()
    ]


def other_data(a: Results, b: Results) -> bool:
    """Whether two results are known to be of other data; a log does not say of which it is."""
    one, two = a.settings.data, b.settings.data
    return one is not None and two is not None and one.fingerprint != two.fingerprint


def _in_words(data: DataConfig) -> str:
    return f"{data.name} {data.split} {data.fingerprint[:8]}"


def _different_labels(results: Sequence[Results]) -> list[str]:
    warnings = []
    known: dict[int, int] = {}
    for result in results:
        met = [record for record in result.records if record.index in known]
        other = [record.index for record in met if record.label != known[record.index]]
        if other:
            warnings.append(
                f"{result.name} has another label than the results before it for {len(other)} of {len(met)} inputs "
                f"they share (first: input {min(other)}); they are not of the same data"
            )
        known = {record.index: record.label for record in result.records} | known
    return warnings


def _read_run(path: Path, name: str) -> Results:
    run = Run.open(path)
    planned, records = run.planned, tuple(run.records())
    if not records:
        raise InputError(f"{path} has no recorded input yet; run the same certify command again to finish")
    for record in records:
        if not _sane(record):
            raise InputError(
                f"{path / 'records.jsonl'} has a record of input {record.index} whose label, radius, time or votes "
                f"cannot be; {REST}"
            )
    warnings = _unfinished(len(records), len(planned)) + _scopes(records) + _unlabelled(records)
    _, cost = evaluations(path)
    settings = dataclasses.replace(_agreed(Settings.of(run.config), records), cost=cost or None)
    return Results(name, records, len(planned), settings, tuple(warnings), run.config.class_names)


def _sane(record: Record) -> bool:
    numbers = (record.radius, 0.0 if record.seconds is None else record.seconds)
    return (
        type(record.prediction) is int
        and all(type(x) in (int, float) and 0 <= x <= LARGEST for x in numbers)
        and (record.draws or 0) <= MOST_DRAWS
    )


def _unfinished(recorded: int, planned: int) -> list[str]:
    if recorded == planned:
        return []
    return [f"{recorded} of {planned} inputs are recorded; run the same certify command again to finish"]


def _unlabelled(records: Sequence[Record]) -> list[str]:
    count = sum(not record.labelled for record in records)
    if not count:
        return []
    return [
        f"{count} of {len(records)} inputs have no label: they count as certified whatever their class is, right or "
        "wrong, and no figure is an accuracy"
    ]


def _scopes(records: Sequence[Record]) -> list[str]:
    counts = Counter(record.claim.scope for record in records if record.claim is not None)
    return [
        f"{counts[scope]} of {len(records)} certificates {meaning}"
        for scope, meaning in NOT_CLAIMED.items()
        if counts[scope]
    ]


def _agreed(settings: Settings, records: Sequence[Record]) -> Settings:
    """The settings of a run with what all of its certificates agree on, and what to know about them."""
    claims = [record.claim for record in records if record.claim is not None]
    alphas, norms, scopes = ({getattr(claim, key) for claim in claims} for key in ("alpha", "norm", "scope"))
    given = sorted({decision.radius for claim in claims for decision in claim.decisions})
    notes = [_through_memory(records)] if Scope.MEMORY in scopes else []
    notes += [GIVEN_UP] if settings.method == Evaluate.name else []
    notes += [routes(records, settings.routing)] if settings.routing is not None else []
    if given:
        listed = ", ".join(map(str, given))
        notes.append(f"only the given radii were decided ({listed}): ACR and other radii are lower bounds")
    return dataclasses.replace(
        settings,
        alpha=alphas.pop() if len(alphas) == 1 else None,
        norm=norms.pop() if len(norms) == 1 else None,
        scope=str(scopes.pop()) if len(scopes) == 1 else None,
        note="; ".join(notes) or None,
    )


def _through_memory(records: Sequence[Record]) -> str:
    """What a memory changed, in words; runs insert in the order of their records."""
    overruled = supplied = cut = 0
    for record in records:
        if record.claim is not None and (said := record.claim.from_draws) is not None:
            overruled += said.overruled(record.prediction)
            supplied += said.supplied(record.prediction)
            cut += said.cut(record.prediction, record.radius)
    return (
        f"through the memory {overruled} answers were overruled, {supplied} abstentions answered and {cut} regions "
        "cut; inputs were inserted in the order of their index"
    )
