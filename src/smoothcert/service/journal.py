"""What a key has answered, on disk: each answer is in it before a client hears it, and none is in it twice.

A folder per key: `run.json` with the hash of the key, `records.jsonl` with chained lines, and the inputs as float32 in
`inputs.f32`. The secret itself lies beside it, in `secrets/`, which only its owner can read: so the folder can be given
away. `service.reveal` makes runs of it that can be verified.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from smoothcert.core.described import IF_ANY
from smoothcert.core.errors import InputError
from smoothcert.core.files import flush_folder
from smoothcert.core.plugins import Plugin
from smoothcert.core.secret import SecretKey
from smoothcert.procedures import Certificate
from smoothcert.runs import ModelConfig, RoutingConfig
from smoothcert.runs.chain import Line, sealed
from smoothcert.runs.folder import ChainedFolder

INPUTS, SECRETS = "inputs.f32", "secrets"
Asked = tuple[str, str]
"""What was asked: the id of the input, and the procedure."""


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """What a server answers with, under one key."""

    key: str  # hash of the secret
    model: ModelConfig
    classifier: Mapping[str, Any]
    num_classes: int
    class_names: tuple[str, ...]
    noise: Mapping[str, Any]
    routing: RoutingConfig | None = field(default=None, metadata={"described": IF_ANY})  # with the server's procedure
    router_share: float | None = field(default=None, metadata={"described": IF_ANY})  # of any other one's alpha
    stream: str  # how random bits are made of seed, input and purpose
    input_shape: tuple[int, ...]
    memory: str | None = None
    plugins: tuple[Plugin, ...] = ()

    @property
    def indices(self) -> tuple[int, ...]:
        """Nobody knows what will be asked."""
        return ()


class ServiceFolder(ChainedFolder[ServiceConfig]):
    """The answers of one key."""

    config_type: ClassVar[type[Any]] = ServiceConfig

    def secret(self) -> SecretKey:
        """The key itself."""
        file = secret_file(self.path)
        try:
            text = file.read_text()
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error.strerror}); give the --out of the server whole") from None
        key = SecretKey.from_hex(text.strip())
        if key.hash != self.config.key:
            raise InputError(f"{file} is not the key whose hash was published; restore the file")
        return key

    def certificate(self, line: Mapping[str, Any], seed: int) -> Certificate:
        """The certificate of a line, with the seed that it leaves out."""
        own = dict(line["certificate"])
        shared = {"classifier": dict(self.config.classifier), "seed": seed, "key": self.config.key}
        if "route" in own:
            own["route"] = {"classifier": dict(self.config.classifier["router"]), "seed": seed} | own["route"]
        return Certificate.from_json(shared | own)


class Journal:
    """The writing end of a key's folder. One thread writes."""

    def __init__(self, folder: Path, config: ServiceConfig, key: SecretKey) -> None:
        self.key, self._config = key, config
        # First: a hash that is published without its secret on disk could never be revealed.
        _keep_secret(secret_file(folder), key)
        self.folder = ServiceFolder.start(folder, config)
        self._open = ExitStack()
        self._writer = self._open.enter_context(self.folder.appending())
        self._inputs = self._open.enter_context((folder / INPUTS).open("wb"))
        self._lines = self._open.enter_context((folder / "records.jsonl").open("rb"))
        self._places: dict[Asked, tuple[int, int]] = {}  # where lines begin, and how long they are
        self._end = 0

    def __len__(self) -> int:
        return len(self._places)

    def append(self, x: Tensor, certificate: Certificate, seconds: float) -> str:
        """Write an answer down and hand it to the operating system: a kill does not lose it. Returns its receipt."""
        asked = (certificate.input_id, asked_procedure(certificate.procedure))
        assert asked not in self._places, "an answer would be in the run twice"
        numbers = x.numpy().astype("<f4").tobytes()
        # At its place: what was written of an answer that failed afterwards is written over.
        self._inputs.seek(len(self._places) * len(numbers))
        self._inputs.write(numbers)
        self._inputs.flush()
        own = certificate.to_json()
        for part in (own, own.get("route", {})):
            for shared in ("classifier", "seed", "key"):
                part.pop(shared, None)
        content = {"index": len(self._places), "seconds": seconds, "certificate": own}
        texts: list[bytes] = []

        def line(previous: str) -> bytes:
            texts.append(sealed(content, previous))
            return texts[-1]

        self._writer.append(line)
        self._places[asked] = (self._end, len(texts[-1]))
        self._end += len(texts[-1])
        return Line(0, texts[-1][:-1], None).digest

    def find(self, input_id: str, procedure: Mapping[str, Any]) -> tuple[Certificate, str] | None:
        """What was answered to the same question under this key, and its receipt."""
        place = self._places.get((input_id, asked_procedure(procedure)))
        if place is None:
            return None
        text = os.pread(self._lines.fileno(), place[1], place[0])[:-1]
        certificate = self.folder.certificate(json.loads(text), self.key.seed(procedure))
        return certificate, Line(0, text, None).digest

    def close(self) -> None:
        """Nothing more will be written."""
        self._open.close()


def asked_procedure(procedure: Mapping[str, Any]) -> str:
    """A procedure as part of a question."""
    return json.dumps(procedure, sort_keys=True)


def read_inputs(folder: ServiceFolder, count: int) -> np.ndarray[Any, Any]:
    """The first inputs of a folder, (count, ...): what was written before a kill and has no line is left out."""
    numbers = np.fromfile(folder.path / INPUTS, dtype="<f4", count=count * int(np.prod(folder.config.input_shape)))
    try:
        return numbers.reshape(count, *folder.config.input_shape)
    except ValueError:
        raise InputError(f"{folder.path / INPUTS} does not hold all inputs that were answered; restore it") from None


def secret_file(folder: Path) -> Path:
    """Where the secret of a key's folder lies."""
    return folder.parent / SECRETS / f"{folder.name}.key"


def _keep_secret(file: Path, key: SecretKey) -> None:
    file.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(key.hex + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    flush_folder(file.parent)
