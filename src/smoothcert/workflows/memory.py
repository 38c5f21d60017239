"""Look into a memory of certified regions: whose it is, whether it holds together, and a copy of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.files import writing_whole
from smoothcert.memory import Memory


def open_existing(where: str | Path) -> Memory:
    """The memory; refused if nobody made it yet."""
    memory = Memory(where)
    if memory.owner is None:
        raise InputError(f"memory {memory.name} does not exist; make one by smoothcert certify --memory")
    return memory


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
    memory, out = open_existing(where), Path(out)
    if out.suffix != ".npz":
        raise InputError(f"--out must end in .npz, got {out}")
    if out.exists():
        raise InputError(f"{out} exists; give another --out")
    regions = list(memory.regions())
    shape = (len(regions), *(memory.owner or {})["shape"])
    with writing_whole(out, new=True) as file:
        np.savez(
            file,
            inputs=np.array([x for _, x in regions], dtype=np.float32).reshape(shape),
            labels=np.array([region.label for region, _ in regions], dtype=np.int64),
            radii=np.array([region.radius for region, _ in regions], dtype=np.float64),
            about=np.array([region.about for region, _ in regions], dtype=np.str_),
            owner=np.array(json.dumps(memory.owner)),
        )
    return len(regions)
