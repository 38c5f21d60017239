"""What was exported or quantised once is kept on disk, so that the next run starts at once.

An entry is a digest and the artifact. What is damaged is built again; and what is read is still compared with the
model before it is used, like what was just built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from smoothcert.core.files import write_whole
from smoothcert.engine.backends.base import BackendTask
from smoothcert.stats.boundary_store import cache_folder

FORMAT = 2  # of the artifacts: another way of making them is another classifier


def artifact(task: BackendTask, kind: str, packages: tuple[str, ...], build: Callable[[], bytes]) -> bytes:
    """`build()`, from disk if it was built before from this model, in this shape, with these versions."""
    if task.fingerprint is None:
        return build()
    key: dict[str, Any] = {
        "format": FORMAT,
        "kind": kind,
        "model": task.fingerprint,
        "shape": [task.rows, *task.shape],
        "calibration": calibration_digest(task),
        "versions": {package: version(package) for package in ("smoothcert", *packages)},
    }
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
    path = cache_folder() / "backends" / name
    with suppress(OSError):
        found = path.read_bytes()
        if found[:32] == _seal(key, found[32:]):
            return found[32:]
    built = build()
    with suppress(OSError):  # a folder that cannot be written only costs time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, _seal(key, built) + built)
    return built


def calibration_digest(task: BackendTask) -> str | None:
    """Of the noisy inputs that the ranges of an int8 model come from."""
    if task.calibration is None:
        return None
    return hashlib.sha256(task.calibration.contiguous().numpy().tobytes()).hexdigest()


def _seal(key: Mapping[str, Any], content: bytes) -> bytes:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode() + b"\n" + content).digest()
