"""`smoothcert report`: runs and public logs become one HTML file to open, send and print."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.analysis import Results
    from smoothcert.datasets import Dataset


def report(
    sources: Annotated[list[Path], typer.Argument(help="Run folders and public TSV logs.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    data: Annotated[
        str | None, typer.Option(help="The data set that was certified: a name, an .npz file or an image folder.")
    ] = None,
    data_root: o.DataRoot = None,
    images: Annotated[bool, typer.Option("--images/--no-images", help="Show the images themselves.")] = True,
    radii: o.Radii = None,
) -> None:
    """Write one self-contained page: what is certified, curves, classes, every input; opens offline."""
    from smoothcert import analysis
    from smoothcert.present.report import write_report

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html, got {out.name!r}")
    columns = None if radii is None else o.numbers(radii)
    results = analysis.read_all(sources)
    found, missing = _datasets(results, data, data_root) if images else ({}, {})
    write_report(
        results,
        out,
        images={r.name: _pictures(found[r.name], r) for r in results if r.name in found},
        class_names={name: of.class_names for name, of in found.items()},
        radii=columns,
        command=_command(sources, out, data, images=images, radii=radii),
    )
    for reason, names in missing.items():
        which = ", ".join(names) if len(names) <= 3 else f"{len(names)} results"
        typer.echo(f"no images of {which}: {reason}", err=True)
    typer.echo(f"The report is in {out}; open it in any browser: {out.resolve().as_uri()}")


def _datasets(
    results: Sequence[Results], given: str | None, root: Path | None
) -> tuple[dict[str, Dataset], dict[str, list[str]]]:
    """By the name of a result its data set; and why others have none: a report does not fail for want of pictures."""
    loaded: dict[tuple[str, str], Dataset | str] = {}
    found: dict[str, Dataset] = {}
    missing: dict[str, list[str]] = {}
    for result in results:
        about = result.settings.data
        source, split = given or ("" if about is None else about.name), "test" if about is None else about.split
        if not source:
            missing.setdefault("it does not say of which data it is; give --data", []).append(result.name)
            continue
        key = (source, split)
        if key not in loaded:
            loaded[key] = _load(source, split, root, must=given is not None)
        dataset = loaded[key]
        reason = dataset if isinstance(dataset, str) else _other(dataset, result)
        if isinstance(dataset, str) or reason:
            missing.setdefault(str(reason), []).append(result.name)
        else:
            found[result.name] = dataset
            if dataset.input_range is None:
                missing.setdefault("its data are a table", []).append(result.name)
    return found, missing


def _load(source: str, split: str, root: Path | None, *, must: bool) -> Dataset | str:
    from smoothcert import datasets

    if not must and source not in datasets.names():
        return f"its data set {source!r} is not known by name; give --data PATH"
    try:
        return datasets.load(source, split, root=root)
    except InputError as error:
        if must:
            raise
        return str(error)


def _other(dataset: Dataset, result: Results) -> str:
    """Why these are not the data of the result, or "". A log names no fingerprint: its labels must agree."""
    about = result.settings.data
    if about is not None:
        same = about.fingerprint == dataset.fingerprint
    else:
        same = all(r.index < len(dataset) and r.label == dataset.labels[r.index] for r in result.records)
    return "" if same else f"the data set {dataset.name} at hand is not the one that was certified; give --data"


def _pictures(dataset: Dataset, result: Results) -> dict[int, Any]:
    return {} if dataset.input_range is None else {index: dataset.inputs[index] for index in result.indices}


def _command(sources: Sequence[Path], out: Path, data: str | None, *, images: bool, radii: str | None) -> str:
    words = ["smoothcert", "report", *map(str, sources), "--out", str(out)]
    words += [] if data is None else ["--data", data]
    words += [] if images else ["--no-images"]
    words += [] if radii is None else ["--radii", radii]
    return shlex.join(words)
