"""One thing to be analysed: records of a run or of a public log, with what is known and what is doubtful about them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from smoothcert.analysis.logs import LARGEST, read_log
from smoothcert.analysis.subset import describe_subset
from smoothcert.core.errors import InputError
from smoothcert.procedures import Certificate, Scope
from smoothcert.runs import Record, Run
from smoothcert.runs.evaluations import evaluations

MOST_DRAWS = 2**53  # beyond it a count is no longer exact as a float, and no machine gets there

NOT_CLAIMED = {
    Scope.MEMORY: "hold for the classifier that answers through its memory; they do not claim anything about the "
    "classifier without that memory",
    Scope.OWN: "are of this input's own classifier, which differs from input to input; they do not claim that any one "
    "classifier is robust",
}


@dataclass(frozen=True)
class Results:
    """Records under a name. `settings` holds what is known (noise, procedure, alpha, data, norm, scope, note, ...)."""

    name: str
    records: tuple[Record, ...]
    planned: int | None = None  # how many inputs the run set out to certify; None: not known
    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def indices(self) -> set[int]:
        """The inputs that are recorded."""
        return {record.index for record in self.records}

    @property
    def subset(self) -> str:
        """Which inputs these are, in words."""
        return describe_subset(self.indices)

    @property
    def norm(self) -> str | None:
        """The norm that the radii are measured in, if known."""
        norm = self.settings.get("norm")
        return norm if isinstance(norm, str) else None

    @property
    def note(self) -> str | None:
        """What a reader of the numbers should know."""
        note = self.settings.get("note")
        return note if isinstance(note, str) else None


def read(path: str | Path) -> Results:
    """Read a run folder or a public TSV log; anything else is refused with one sentence (InputError).

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
    settings = {"source": "public log"} | ({} if log.note is None else {"note": log.note})
    return Results(name.removesuffix(".tsv"), log.records, settings=settings, warnings=log.warnings)


def read_all(paths: Sequence[str | Path]) -> list[Results]:
    """Read several, and lengthen equal names by the folder they lie in until they differ."""
    results = [read(path) for path in paths]
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
    settings = {**result.settings, "restricted": f"{len(kept)} shared inputs of {len(result.records)}"}
    return dataclasses.replace(result, records=kept, planned=None, settings=settings)


def _different_settings(results: Sequence[Results]) -> list[str]:
    different = {}
    if any(other_data(a, b) for a, b in combinations(results, 2)):
        different["data sets"] = {result.name: _in_words(data) for result in results if (data := _data(result))}
    norms = {result.name: result.norm for result in results if result.norm is not None}
    if len(set(norms.values())) > 1:
        different["norms"] = norms
    return [
        f"the results are of different {what} ({', '.join(f'{name}: {value}' for name, value in known.items())}); "
        "they cannot be compared"
        for what, known in different.items()
    ]


def other_data(a: Results, b: Results) -> bool:
    """Whether two results are of other data: by their fingerprint where both know it, else by name and split."""
    one, two = _data(a), _data(b)
    if "fingerprint" in one and "fingerprint" in two:
        return bool(one["fingerprint"] != two["fingerprint"])
    return bool(one and two) and any(one.get(key) != two.get(key) for key in ("name", "split"))


def _data(result: Results) -> Mapping[str, Any]:
    data = result.settings.get("data")
    return data if isinstance(data, Mapping) and "name" in data else {}


def _in_words(data: Mapping[str, Any]) -> str:
    words = (str(data["name"]), str(data.get("split", "")), str(data.get("fingerprint", ""))[:8])
    return " ".join(filter(None, words))


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
                "cannot be; delete that line and resume"
            )
    warnings = _unfinished(len(records), len(planned)) + _scopes(records)
    _, cost = evaluations(path)
    settings = _settings(run.config, records) | ({"cost": cost} if cost else {})
    return Results(name, records, len(planned), settings, tuple(warnings))


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


def _scopes(records: Sequence[Record]) -> list[str]:
    counts = Counter(record.certificate.scope for record in records if record.certificate is not None)
    return [
        f"{counts[scope]} of {len(records)} certificates {meaning}"
        for scope, meaning in NOT_CLAIMED.items()
        if counts[scope]
    ]


def _settings(config: Mapping[str, Any], records: Sequence[Record]) -> dict[str, Any]:
    """The configuration without the bulk, and what all certificates agree on."""
    settings = {key: value for key, value in config.items() if key not in ("indices", "labels", "format")}
    certificates = [record.certificate for record in records if record.certificate is not None]
    for key in ("alpha", "norm", "scope"):
        values = [getattr(certificate, key) for certificate in certificates]
        if all(value == values[0] for value in values):
            settings[key] = str(values[0]) if key == "scope" else values[0]
    given = sorted({decision.radius for certificate in certificates for decision in certificate.decisions})
    notes = [_through_memory(certificates)] if any(c.scope is Scope.MEMORY for c in certificates) else []
    if given:
        listed = ", ".join(map(str, given))
        notes.append(f"only the given radii were decided ({listed}): ACR and other radii are lower bounds")
    return settings | ({"note": "; ".join(notes)} if notes else {})


def _through_memory(certificates: Sequence[Certificate]) -> str:
    """What a memory changed, in words; runs insert in the order of their records."""
    overruled, supplied, cut = (
        sum(getattr(certificate, what) for certificate in certificates) for what in ("overruled", "supplied", "cut")
    )
    return (
        f"through the memory {overruled} answers were overruled, {supplied} abstentions answered and {cut} regions "
        "cut; inputs were inserted in the order of their index"
    )
