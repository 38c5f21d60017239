"""What came of a run, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from smoothcert.runs import Record


@dataclass
class Outcome:
    """What came of the inputs so far, in a few words."""

    planned: int
    fixed_draws: int = 0
    inputs: int = 0
    draws: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, records: Sequence[Record], planned: int) -> Outcome:
        """Of all of a run."""
        outcome = cls(planned)
        for record in records:
            outcome.add(record)
        return outcome

    def add(self, record: Record) -> None:
        """One more input is done."""
        self.inputs += 1
        self.draws += record.draws or 0
        judged = "right" if record.correct else "wrong" if record.labelled else "unlabelled"
        self.counts["abstained" if record.abstained else judged] += 1

    @property
    def certified(self) -> int:
        """Inputs with a certificate, of the right class or not, or nobody knows."""
        return self.counts["right"] + self.counts["wrong"] + self.counts["unlabelled"]

    @property
    def sentence(self) -> str:
        """As in `3 of 4 inputs certified, 1 abstained`."""
        of = f"{self.certified} of {self.planned} input{'' if self.planned == 1 else 's'} certified"
        wrong = f" ({self.counts['wrong']} as a wrong class)" if self.counts["wrong"] else ""
        return f"{of}{wrong}, {self.counts['abstained']} abstained"

    def __str__(self) -> str:
        wrong = "" if self.counts["unlabelled"] else f" ({self.counts['wrong']} wrong)"
        text = f"{self.certified} certified{wrong}, {self.counts['abstained']} abstained, "
        text += f"{self.planned - self.inputs} to do"
        saved = self.inputs * self.fixed_draws - self.draws
        return f"{text}, {saved:,} draws saved" if saved > 0 else text
