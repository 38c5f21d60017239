"""Which parts of a classifier's description say what function it is; the rest says how it was run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Another one of these is another function; the rest of a description may only change how scores are rounded.
IDENTITY = (
    "fingerprint", "kind", "dtype", "own_weights.name", "backend.name", "backend.precision", "backend.calibration",
)  # fmt: skip


def flat(description: Mapping[str, Any]) -> dict[str, Any]:
    """One level of nesting as "backend.name"."""
    out: dict[str, Any] = {}
    for key, value in description.items():
        out |= {f"{key}.{name}": v for name, v in value.items()} if isinstance(value, Mapping) else {key: value}
    return out


def identifying(description: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a flat description that identify the function.

    Numbers of eight bits are not a rounding: what they are is part of the function, and how the processor adds them.
    """
    eight_bits = ("backend.digest", "backend.int8_sums") if description.get("backend.precision") == "int8" else ()
    settings = (name for name in description if name.startswith("own_weights.") and name not in IDENTITY)
    return (*IDENTITY, *settings, *eight_bits)
