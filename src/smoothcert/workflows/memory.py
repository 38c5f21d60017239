"""Look into a memory of certified regions: whose it is, whether it holds together, and a copy of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.files import writing_whole
from smoothcert.memory import Memory


@contextmanager
def opened_memory(where: Memory | str | Path | None, *, there: bool = False) -> Iterator[Memory | None]:
    """The memory, closed at the end if it is opened here; with `there`, refused if nobody made it yet."""
    opened = Memory(where) if isinstance(where, str | Path) else where
    try:
        if there and opened is not None and opened.owner is None:
            raise InputError(f"memory {opened.name} does not exist; make one by smoothcert certify --memory")
        yield opened
    finally:
        if opened is not None and opened is not where:
            opened.close()


def info(where: str | Path) -> dict[str, Any]:
    """Whose memory it is, and how many regions it has."""
    with opened_memory(where, there=True) as memory:
        assert memory is not None
        return memory.info()


def check(where: str | Path) -> tuple[int | None, list[str]]:
    """How many regions there are, if the whole store holds together; and what does not."""
    with opened_memory(where, there=True) as memory:
        assert memory is not None
        found = memory.check()
        return None if found else len(memory), found


def in_words(about: dict[str, Any]) -> list[str]:
    """What a memory says of itself (`Memory.info`), a line each."""
    lines = dict(about)
    lines["radius"] = ", ".join(f"{name} {value}" for name, value in lines.pop("radius").items())
    lines["classifier"] = ", ".join(f"{name} {value}" for name, value in about["classifier"].items() if value)
    lines["by_class"] = ", ".join(f"{name}: {count}" for name, count in about["by_class"].items())
    lines["noise"] = " ".join(str(value) for value in about["noise"].values())
    return [f"{name.replace('_', ' ')}: {value}" for name, value in lines.items()]


def export(where: str | Path, out: str | Path) -> int:
    """Write all regions to an .npz file: inputs, labels, radii, about (JSON of the certificates), owner (JSON).

    Gives how many they are. A file that exists is refused.
    """
    out = Path(out)
    if out.suffix != ".npz":
        raise InputError(f"--out must end in .npz, got {out}")
    if out.exists():
        raise InputError(f"{out} exists; give another --out")
    with opened_memory(where, there=True) as memory:
        assert memory is not None
        regions, owner = list(memory.regions()), memory.owner or {}
    shape = (len(regions), *owner["shape"])
    with writing_whole(out, new=True) as file:
        np.savez(
            file,
            inputs=np.array([x for _, x in regions], dtype=np.float32).reshape(shape),
            labels=np.array([region.label for region, _ in regions], dtype=np.int64),
            radii=np.array([region.radius for region, _ in regions], dtype=np.float64),
            about=np.array([region.about for region, _ in regions], dtype=np.str_),
            owner=np.array(json.dumps(owner)),
        )
    return len(regions)
