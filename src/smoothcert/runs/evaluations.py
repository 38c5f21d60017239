"""What an ensemble cost: beside the records of a run, how many noisy inputs each member was asked about."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from smoothcert.core.errors import InputError
from smoothcert.core.files import write_whole

FILE = "asked.json"


def add_evaluations(folder: Path, asked: Sequence[int], cost: Callable[[Sequence[int]], str]) -> str:
    """Add what members were asked to what they were asked in earlier attempts; returns the cost of all, in words.

    What a killed attempt had asked is missing; no certificate depends on it.
    """
    before, _ = evaluations(folder)
    if before and len(before) != len(asked):
        raise _damaged(folder)
    total = [a + b for a, b in zip(asked, before, strict=True)] if before else list(asked)
    sentence = cost(total)
    write_whole(folder / FILE, json.dumps({"asked": total, "cost": sentence}).encode())
    return sentence


def evaluations(folder: Path) -> tuple[tuple[int, ...], str]:
    """How many noisy inputs each member was asked about, and that in words; nothing where no ensemble was certified."""
    try:
        content = json.loads((folder / FILE).read_text())
        asked, cost = tuple(int(count) for count in content["asked"]), str(content["cost"])
    except FileNotFoundError:
        return (), ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(folder) from None
    return asked, cost


def _damaged(folder: Path) -> InputError:
    return InputError(f"{folder / FILE} was damaged; delete it, it only says what an ensemble cost")
