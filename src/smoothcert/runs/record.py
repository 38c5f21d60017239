"""One line of a run: what was claimed about one input, beside the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.procedures import ABSTAIN, Certificate


@dataclass(frozen=True)
class Record:
    """An input of a data set, its true label, and the claim. Public logs have no `certificate`: they keep no votes."""

    index: int  # position in the data set
    label: int  # the truth
    prediction: int  # ABSTAIN, or the class
    radius: float
    draws: int | None = None
    seconds: float | None = None
    certificate: Certificate | None = None

    @property
    def abstained(self) -> bool:
        """Nothing was claimed."""
        return self.prediction == ABSTAIN

    @property
    def correct(self) -> bool:
        """The claim is of the true class. Recomputed, never read: one author's logs hold a running total instead."""
        return self.prediction == self.label

    @classmethod
    def of(cls, index: int, label: int, certificate: Certificate, seconds: float) -> Record:
        """The record of a certificate."""
        return cls(index, label, certificate.label, certificate.radius, certificate.draws, seconds, certificate)

    def to_json(self) -> dict[str, Any]:
        """Index, truth, time and the certificate; the rest follows from it."""
        if self.certificate is None:
            raise InputError("a record without a certificate comes from a public log and cannot be written to a run")
        return {
            "index": self.index,
            "label": self.label,
            "seconds": self.seconds,
            "certificate": self.certificate.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`."""
        for name in ("index", "label"):
            if isinstance(data[name], bool) or not isinstance(data[name], int):
                raise InputError(f"{name} must be a whole number, got {data[name]!r}")
        if isinstance(data["seconds"], bool) or not isinstance(data["seconds"], int | float):
            raise InputError(f"seconds must be a number, got {data['seconds']!r}")
        return cls.of(data["index"], data["label"], Certificate.from_json(data["certificate"]), data["seconds"])
