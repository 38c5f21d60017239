"""Boundaries that were computed once are kept on disk: they depend on five numbers only.

A damaged or forged file would make false certificates, so what is read is not believed: the exact probability of a
false certificate is computed from the boundaries (which takes a thirtieth of the time of finding them), and a table
that does not keep alpha is computed again. The digest only catches what would cost power.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from smoothcert.core.files import write_whole
from smoothcert.stats.group_sequential import Boundaries, boundaries, keeps_alpha
from smoothcert.stats.look_plan import TUNING

VERSION = 2  # of the algorithm: another one has other boundaries


def cache_folder() -> Path:
    """Where computed tables are kept: $SMOOTHCERT_CACHE, else smoothcert in the user's cache folder."""
    if given := os.environ.get("SMOOTHCERT_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smoothcert"


@lru_cache(maxsize=64)
def stored_boundaries(p0s: tuple[float, ...], n: int, alpha: float, beta: float) -> tuple[Boundaries, ...]:
    """`group_sequential.boundaries`, from disk if they are there and whole."""
    key = {"version": VERSION, "p0s": p0s, "n": n, "alpha": alpha, "beta": beta, "tuning": TUNING}
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    path = cache_folder() / "boundaries" / f"{name}.json"
    found = _read(path, key)
    if found is None:
        found = boundaries(p0s, n, alpha, beta)
        _write(path, {"key": key, "tables": [asdict(table) for table in found]})
    return found


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path, key: dict[str, Any]) -> tuple[Boundaries, ...] | None:
    try:
        data = json.loads(path.read_text())
        if data["digest"] != _digest(data["content"]) or data["content"]["key"] != json.loads(json.dumps(key)):
            return None
        tables = tuple(
            Boundaries(t["p0"], tuple(t["looks"]), tuple(t["certify"]), tuple(t["give_up"]), t["size"])
            for t in data["content"]["tables"]
        )
        return tables if keeps_alpha(tables, tuple(key["p0s"]), key["alpha"]) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _write(path: Path, content: dict[str, Any]) -> None:
    """At once and whole, or not at all; a folder that cannot be written only costs time."""
    plain = json.loads(json.dumps(content))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"digest": _digest(plain), "content": plain}).encode())
