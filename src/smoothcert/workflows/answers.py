"""Answers to inputs from files, and how they are written down: CSV for people, JSON for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.core.files import write_whole
from smoothcert.procedures import Certificate, Prediction
from smoothcert.stats.rounding import down

COLUMNS = ("input", "class", "label", "radius", "norm", "alpha", "draws", "reason")
SUFFIXES = (".csv", ".json")


@dataclass(frozen=True)
class Answer:
    """What is answered to one input, and how far that holds if it was certified."""

    source: str  # the file
    class_name: str | None  # None: it abstains
    prediction: Prediction | Certificate

    @property
    def radius(self) -> float | None:
        """Within which nothing changes the answer; None where that was not asked."""
        return self.prediction.radius if isinstance(self.prediction, Certificate) else None

    def __str__(self) -> str:
        said = self.prediction
        if self.class_name is None:
            return f"{self.source}: abstains ({said.reason})"
        within = f" {said.within}" if isinstance(said, Certificate) else ""
        return f"{self.source}: {self.class_name}{within} ({said.reason})"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in full precision."""
        return {"input": self.source, "class": self.class_name, **self.prediction.to_json()}

    def row(self) -> list[Any]:
        """The cells of a table; empty where it abstains, or the radius was not asked."""
        said = self.prediction
        radius, norm = (down(said.radius, 6), said.norm) if isinstance(said, Certificate) else ("", "")
        label = "" if said.abstained else said.label
        return [self.source, self.class_name or "", label, radius, norm, said.alpha, said.draws, said.reason]


def check_answers_name(path: Path) -> None:
    """Refuse a file that answers cannot be written to, before anything is asked."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out must end in {' or '.join(SUFFIXES)}, got {path.name!r}")
    if not path.parent.is_dir():
        raise InputError(f"--out {path} lies in a folder that does not exist; make it, or give another")


def write_answers(path: Path, answers: Sequence[Answer]) -> None:
    """Write all answers to a .csv or .json file, which is there whole or not at all."""
    if path.suffix.lower() == ".json":
        text = json.dumps([answer.to_json() for answer in answers], indent=2) + "\n"
    else:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(answer.row() for answer in answers)
        text = out.getvalue()
    try:
        write_whole(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise InputError(
            f"--out {path} cannot be written ({error.strerror}); give a file in a folder of yours"
        ) from None
