"""Runs without a model, and runs changed by hand: as a careful forger leaves them, with every digest made again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothcert.procedures import Certificate, Fixed
from smoothcert.runs import DataConfig, Run, RunConfig, SubsetConfig
from smoothcert.runs.chain import Line, sealed
from smoothcert.runs.config import config_digest

CLASSIFIER = {"kind": "Net", "fingerprint": "f" * 64, "backend": {"name": "eager"}, "batch": 128, "device": "cpu"}
Lines = list[dict[str, Any]]


def simulated_config(indices: Sequence[int], **changes: Any) -> RunConfig:
    """The configuration of a run that certifies these inputs of a data set; they are one of its subsets."""
    planned = tuple(indices)
    every = planned[1] - planned[0] if len(planned) > 1 else 1
    subset = SubsetConfig(start=planned[0], every=max(1, every), limit=len(planned))
    data = DataConfig(
        name="digits",
        split="test",
        size=max(planned) + 1,
        fingerprint="d" * 64,
        subset=subset,
        distinct=len(planned),
    )
    settings: dict[str, Any] = {
        "data": data,
        "classifier": CLASSIFIER,
        "num_classes": 2,
        "noise": {"name": "gaussian", "sigma": 0.25, "norm": "l2", "dim": None, "arithmetic": "float32"},
        "procedure": Fixed(n0=10, n=100).describe(),
        "seed": 0,
        "stream": "",  # as of certificates that nobody has drawn
        "indices": planned,
        "labels": (1,) * len(planned),
    }
    return RunConfig(**settings | changes)


def read_run(path: Path) -> tuple[dict[str, Any], Lines]:
    """The configuration and the lines of a run, each certificate complete."""
    config = json.loads((path / "run.json").read_text())["config"]
    lines = [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]
    for line in lines:
        del line["previous"], line["digest"]
        line["certificate"] = Certificate.from_json(_shared(config) | line["certificate"]).to_json()
    return config, json.loads(json.dumps(lines))


def write_run(path: Path, config: dict[str, Any], lines: Lines, **made: Any) -> Path:
    """The run with this configuration and these lines, every digest as it should be."""
    path.mkdir(exist_ok=True)
    content = {"format": 4, "config": config, "digest": config_digest(config), "made": made}
    (path / "run.json").write_text(json.dumps(content))
    shared, last, text = _shared(config), config_digest(config), b""
    for line in lines:
        own = line.get("certificate")
        if isinstance(own, dict):
            own = {name: value for name, value in own.items() if name not in shared or value != shared[name]}
        line_text = sealed({**line, "certificate": own}, last)
        last, text = Line(0, line_text[:-1], None).digest, text + line_text
    (path / "records.jsonl").write_bytes(text)
    return path


def made_of(path: Path) -> dict[str, Any]:
    """When and where a run was made."""
    return dict(json.loads((path / "run.json").read_text())["made"])


def rewrite(path: Path, config: dict[str, Any], lines: Lines) -> Run:
    """The run in a folder again, with this configuration and these lines, every digest as it should be."""
    return Run.open(write_run(path, config, lines, **made_of(path)))


def _shared(config: dict[str, Any]) -> dict[str, Any]:
    """What lines leave out where it is the run's."""
    scope = "fixed classifier" if config.get("sigma_search") is None else "this input's own classifier"
    values = {name: config.get(name) for name in ("classifier", "noise", "procedure", "seed", "stream")}
    values |= {"alpha": _of(config, "procedure").get("alpha"), "norm": _of(config, "noise").get("norm")}
    values["scope"] = scope if config.get("memory") is None else "memory"
    return {name: value for name, value in values.items() if value is not None}


def _of(config: dict[str, Any], name: str) -> dict[str, Any]:
    part = config.get(name)
    return part if isinstance(part, dict) else {}
