"""What does not hold about a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from smoothcert.runs.record import Record


@dataclass(frozen=True)
class Finding:
    """One thing that was checked and does not hold, with where it is."""

    check: str  # what was checked, in a word: "radius", "missing", "votes", ...
    sentence: str
    index: int | None = None  # of the input; None: of the run, or of a line that names no input
    line: int | None = None  # of records.jsonl, from 1

    @property
    def where(self) -> str:
        """The input, else the line, else the configuration."""
        if self.index is not None:
            return f"input {self.index}"
        return "run.json" if self.line is None else f"line {self.line}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Entry:
    """One line of a run as it was found: the record, if it can be read, and what is wrong with the line."""

    line: int  # from 1
    text: bytes
    record: Record | None
    findings: tuple[Finding, ...]
