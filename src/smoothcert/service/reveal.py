"""The key of a server is revealed: its answers become runs that anybody can verify, to the last draw.

One run for each procedure that was asked for, because each has its own seed. A key that was revealed is never used
again: every start of a server, and every rotation, takes a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.files import write_whole
from smoothcert.core.labels import UNKNOWN
from smoothcert.core.secret import SecretKey
from smoothcert.procedures import Procedure
from smoothcert.procedures.routed import split_level
from smoothcert.runs import DataConfig, KeyConfig, Record, RoutingConfig, Run, RunConfig
from smoothcert.runs.chain import Line
from smoothcert.service.journal import ServiceConfig, ServiceFolder, asked_procedure, read_inputs
from smoothcert.workflows.of_run import OWN_INPUTS, own_data

REVEALED = "revealed"


@dataclass(frozen=True)
class Revealed:
    """A run that can be verified now."""

    run: Path
    answers: int
    key: str  # the hash that was published


def reveal(out: Path) -> list[Revealed]:
    """Reveal every key in the folder of a server (its --out) that is in use no more; done again, nothing changes."""
    folders = sorted(path.parent for path in out.glob("*/run.json"))
    if not folders:
        raise InputError(f"{out} holds no answers of a server; give the --out of smoothcert serve")
    found: list[Revealed] = []
    busy: InputError | None = None
    for path in folders:
        folder = ServiceFolder.open(path)
        try:
            with folder.appending():  # refused while a server answers with this key
                lines = folder.lines()
        except InputError as error:
            busy = error
            continue
        found += _runs(folder, folder.secret(), lines)
    if busy is not None and not found:
        raise InputError(f"{out} is in use: its server still answers with the key; stop it, or wait for the next key")
    return found


def _runs(folder: ServiceFolder, key: SecretKey, lines: Sequence[Line]) -> Iterator[Revealed]:
    inputs = read_inputs(folder, len(lines))
    groups: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for row, line in enumerate(lines):
        if line.wrong is not None:
            raise InputError(f"{folder.path}, line {line.number} {line.wrong}; restore the file")
        content = json.loads(line.text)
        groups.setdefault(asked_procedure(content["certificate"]["procedure"]), []).append((row, content))
    for number, group in enumerate(groups.values(), start=1):
        procedure = group[0][1]["certificate"]["procedure"]
        path = folder.path / REVEALED / f"{procedure['name']}-{number}"
        run = _run(path, folder, key, procedure, inputs[[row for row, _ in group]])
        with run.writing() as writer:
            for index in range(len(run.records()), len(group)):
                content = group[index][1]
                certificate = folder.certificate(content, run.config.seed)
                writer.append(Record.of(index, UNKNOWN, certificate, content["seconds"]))
        yield Revealed(path, len(group), key.hash)


def _run(
    path: Path, folder: ServiceFolder, key: SecretKey, procedure: Mapping[str, Any], inputs: np.ndarray[Any, Any]
) -> Run:
    about, data = folder.config, own_data(inputs)
    config = RunConfig(
        data=DataConfig(
            name=data.name, split=data.split, size=len(data), fingerprint=data.fingerprint, distinct=len(data)
        ),
        model=about.model,
        classifier=about.classifier,
        num_classes=about.num_classes,
        class_names=about.class_names,
        noise=about.noise,
        routing=_routing(about, procedure),
        procedure=procedure,
        seed=key.seed(procedure),
        stream=about.stream,
        key=KeyConfig(hash=key.hash, revealed=key.hex),
        memory=about.memory,
        plugins=about.plugins,
        indices=tuple(range(len(data))),
        labels=(UNKNOWN,) * len(data),
    )
    run = Run.start(path, config, command="smoothcert serve")
    with BytesIO() as whole:
        np.save(whole, data.inputs)
        write_whole(path / OWN_INPUTS, whole.getvalue())
    return run


def _routing(about: ServiceConfig, procedure: Mapping[str, Any]) -> RoutingConfig | None:
    """What a run says of its router, whose levels follow from the procedure that was asked for."""
    if about.routing is None or about.router_share is None:
        return None
    of_router, of_member = split_level(Procedure.from_description(procedure), about.router_share)
    return replace(about.routing, router_procedure=of_router.describe(), member_procedure=of_member.describe())
