"""Runs and public logs become one HTML file, with the pictures that can be found."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert import analysis
from smoothcert.analysis import Results
from smoothcert.core.errors import InputError
from smoothcert.present.report import About, Audited, Example, write_report
from smoothcert.runs import Run
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.verify import Verification, last_digest

if TYPE_CHECKING:
    from smoothcert.datasets import Dataset
    from smoothcert.runs import DataConfig
    from smoothcert.workflows.sources import DataSource


def report(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    data: DataSource | None = None,
    data_root: Path | None = None,
    images: bool = True,
    radii: Sequence[float] | None = None,
    audits: Sequence[str | Path | Verification] = (),
    observer: Observer = SILENT,
) -> Path:
    """Write one self-contained page: what is certified, curves, classes, every input; opens offline. Gives its path.

    Pictures are shown where the data that were certified are at hand; a report does not fail for want of them.

    Args:
        sources: run folders and public TSV logs.
        out: ends in .html.
        data: what was certified. Default: the data that each run names.
        data_root: where the files of named data sets lie.
        images: whether to look for pictures.
        radii: columns of the table. Default: chosen.
        audits: what `verify` found about these runs: its result, or the file that `verify --json` wrote. One of another
            run, or of an earlier state of it, is refused.
        observer: hears of results without pictures.
    """
    out = Path(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html, got {out.name!r}")
    results = analysis.read_all([Path(source) for source in sources])
    audited = _audited(sources, audits)
    found, missing = _datasets(results, data, data_root) if images else ({}, {})
    called = {result.name: _packaged(result) for result in results if result.name in found}
    write_report(
        results,
        out,
        images={r.name: _pictures(found[r.name], r) for r in results if r.name in found},
        class_names={name: of.class_names for name, of in found.items()},  # for logs, which name none
        radii=None if radii is None else list(radii),
        command=_command(sources, out, data, images=images, radii=radii, audits=audits),
        about={
            result.name: replace(
                _about(Path(source), audited.get(Path(source)), _examples(found.get(result.name), result)),
                model=called.get(result.name, ""),
            )
            for source, result in zip(sources, results, strict=True)
        },
    )
    for reason, names in missing.items():
        which = ", ".join(names) if len(names) <= 3 else f"{len(names)} results"
        observer.warned(f"no images of {which}: {reason}")
    return out


def _packaged(result: Results) -> str:
    """zoo:NAME of a packaged model, for whoever makes the run again, since the files are all called the same; or ""."""
    from smoothcert.models.zoo import PREFIX, zoo  # noqa: PLC0415 (it loads torch, as pictures do)

    model = result.settings.model
    if model is None or model.files != ("model.safetensors",):
        return ""
    known = {name: Run.open(one.run).config.model for name, one in zoo().items()}
    return next((f"{PREFIX}{name}" for name, one in known.items() if one and one.fingerprint == model.fingerprint), "")


def _about(source: Path, audit: Audited | None, shown: tuple[Example, ...]) -> About:
    """When and how a run says it was made; of a log nothing is known."""
    if not source.is_dir():
        return About(examples=shown)
    made = Run.open(source).made
    return About(made.when, made.command, audit, shown)


def _examples(dataset: Dataset | None, result: Results) -> tuple[Example, ...]:
    if dataset is None or dataset.input_range is None:
        return ()
    from smoothcert.workflows.report_examples import examples  # noqa: PLC0415 (noise is drawn by torch)

    return examples(dataset, result)


def _audited(sources: Sequence[str | Path], audits: Sequence[str | Path | Verification]) -> dict[Path, Audited]:
    """By the folder of a run what was found about it."""
    if not audits:
        return {}
    states = {last_digest(Run.open(path)): path for path in map(Path, sources) if path.is_dir()}
    found: dict[Path, Audited] = {}
    for one in audits:
        content = one.to_json() if isinstance(one, Verification) else _read_audit(Path(one))
        if content.get("run") not in states:
            raise InputError(f"{_called(one)} is not of these runs as they are now; verify them again with --json")
        where = [f"{finding.get('where')}: {finding.get('sentence')}" for finding in content.get("findings", ())]
        found[states[content["run"]]] = Audited(content["holds"] is True, str(content["sentence"]), tuple(where))
    return found


def _called(audit: str | Path | Verification) -> str:
    return "the audit" if isinstance(audit, Verification) else f"--audit {audit}"


def _read_audit(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not {"run", "holds", "sentence", "findings"} <= set(content):
            raise ValueError
        parts: dict[str, Any] = dict(content)
    except (OSError, ValueError, TypeError, RecursionError):
        raise InputError(f"{path} is not what smoothcert verify --json prints; write that into a file") from None
    return parts


def _datasets(
    results: Sequence[Results], given: DataSource | None, root: Path | None
) -> tuple[dict[str, Dataset], dict[str, list[str]]]:
    """By the name of a result its data set; and why others have none."""
    loaded: dict[tuple[str, ...], Dataset | str] = {}
    found: dict[str, Dataset] = {}
    missing: dict[str, list[str]] = {}
    for result in results:
        about = result.settings.data
        source = given if given is not None else None if about is None else about.name
        split = "test" if about is None else about.split
        if source is None:
            missing.setdefault("it does not say of which data it is; give --data", []).append(result.name)
            continue
        read = {} if about is None else {**(about.preprocessing or {}), "label": about.label_column or ""}
        key = (str(source) if given is None or isinstance(given, str | Path) else "", split, str(sorted(read.items())))
        if key not in loaded:
            loaded[key] = _load(source, split, root, about, must=given is not None)
        dataset = loaded[key]
        if not isinstance(dataset, str):
            from smoothcert.workflows.of_run import numbered_as  # noqa: PLC0415

            dataset = numbered_as(dataset, result.class_names)
        reason = dataset if isinstance(dataset, str) else _other(dataset, result)
        if isinstance(dataset, str) or reason:
            missing.setdefault(str(reason), []).append(result.name)
        else:
            found[result.name] = dataset
            if dataset.input_range is None:
                missing.setdefault("its data are no 8-bit images", []).append(result.name)
    return found, missing


def _load(source: Any, split: str, root: Path | None, about: DataConfig | None, *, must: bool) -> Dataset | str:
    from smoothcert import datasets  # noqa: PLC0415 (a report without pictures does not wait for torch)
    from smoothcert.workflows.of_run import read_as  # noqa: PLC0415
    from smoothcert.workflows.sources import open_data  # noqa: PLC0415

    if not must and source not in datasets.names():
        return f"its data set {source!r} is not known by name; give --data PATH"
    try:
        return open_data(source, split, root=root, called="--data", read=None if about is None else read_as(about))
    except InputError as error:
        if must:
            raise
        return str(error)


def _other(dataset: Dataset, result: Results) -> str:
    """Why these are not the data of the result, or "". A log names no fingerprint: its labels must agree."""
    about = result.settings.data
    if about is not None:
        # A fingerprint may be of files alone: records name inputs by content.
        same = about.fingerprint == dataset.fingerprint and _same_inputs(dataset, result)
    else:
        same = all(r.index < len(dataset) and r.label == dataset.labels[r.index] for r in result.records)
    return "" if same else f"the data set {dataset.name} at hand is not the one that was certified; give --data"


def _same_inputs(dataset: Dataset, result: Results) -> bool:
    from smoothcert.core.randomness import input_id  # noqa: PLC0415

    certificates = {record.index: record.certificate for record in result.records}
    for part in dataset.parts(sorted(certificates)):
        for index, x in zip(part, dataset.tensors(part), strict=True):
            certificate = certificates[index]
            if certificate is not None and certificate.input_id not in ("", input_id(x)):
                return False
    return True


class Pictures(Mapping[int, Any]):
    """The images of a result's inputs, each read when it is drawn."""

    def __init__(self, dataset: Dataset, result: Results) -> None:
        self._dataset, self._indices = dataset, sorted(result.indices)

    def __getitem__(self, index: int) -> Any:
        return self._dataset.inputs[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


def _pictures(dataset: Dataset, result: Results) -> Mapping[int, Any]:
    return {} if dataset.input_range is None else Pictures(dataset, result)


def _command(
    sources: Sequence[str | Path],
    out: Path,
    data: Any,
    *,
    images: bool,
    radii: Sequence[float] | None,
    audits: Sequence[str | Path | Verification],
) -> str:
    """What makes the report again, as far as a command can."""
    words = ["smoothcert", "report", *map(str, sources), "--out", str(out)]
    words += ["--data", str(data)] if isinstance(data, str | Path) else []
    words += [] if images else ["--no-images"]
    words += [] if radii is None else ["--radii", ",".join(repr(r).removesuffix(".0") for r in radii)]
    words += [word for one in audits if not isinstance(one, Verification) for word in ("--audit", str(one))]
    return shlex.join(words)
