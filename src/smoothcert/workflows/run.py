"""`Run` as users hold it: what is on disk, and everything that can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert import runs
from smoothcert.analysis import Results, Summary, read, summarise
from smoothcert.procedures import Certificates
from smoothcert.workflows.analyze import table_text
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.outcome import Outcome

if TYPE_CHECKING:
    from smoothcert.datasets import Dataset
    from smoothcert.engine import Pool
    from smoothcert.memory import Memory
    from smoothcert.workflows.attack import AttackResult
    from smoothcert.workflows.brought import AnyModel
    from smoothcert.workflows.sources import DataSource
    from smoothcert.workflows.verify import Verification


MOST_PICTURES = 60  # that a table in a notebook shows


class Run(runs.Run):
    """A folder of certificates: made by `smoothcert.certify`, or read from disk by `Run.open`.

    The data stay at hand after `certify`. A run that was opened finds named data by itself; others are given again.
    """

    data: Dataset | None = None

    @property
    def outcome(self) -> Outcome:
        """How many inputs were certified, and how many abstained."""
        return Outcome.of(self.records(), len(self.planned))

    def certificates(self) -> Certificates:
        """All certificates, in the order of the plan: a list, which prints as a table, with pictures in notebooks.

        Inputs are called by their files where the data are at hand.
        """
        found = super().certificates()
        if self.data is not None:
            numbers = [int(name) for name in found.input_names]
            found.input_names = tuple(self.data.input_name(number) for number in numbers)
            if len(found) <= MOST_PICTURES:
                found.images = self.data.tensors(numbers).numpy()
        return found

    def results(self) -> Results:
        """The run as `smoothcert.analysis` takes it."""
        return read(self.path)

    def summary(self, radii: Sequence[float] | None = None) -> Summary:
        """ACR, certified accuracy at radii, abstentions and cost, with 95% intervals; claims are rounded down."""
        return summarise([self.results()], None if radii is None else list(radii))

    def table(self, radii: Sequence[float] | None = None, form: str = "terminal") -> str:
        """The summary as text: for a `terminal`, or as `markdown`, `latex` or `csv`."""
        return table_text(self.summary(radii), form)

    def report(
        self,
        path: str | Path,
        *,
        data: DataSource | None = None,
        images: bool = True,
        audit: Verification | None = None,
        observer: Observer = SILENT,
    ) -> Path:
        """Write one HTML file with curves, tables and every input, which opens anywhere, offline.

        `audit` is what `verify` found about this run; the page shows it.
        """
        from smoothcert.workflows.report import report  # noqa: PLC0415 (pictures need torch, tables do not)

        audits = [] if audit is None else [audit]
        shown = self.data if data is None else data
        return report([self.path], path, data=shown, images=images, audits=audits, observer=observer)

    def verify(
        self,
        model: AnyModel | None = None,
        *,
        data: DataSource | None = None,
        share: float = 1.0,
        fresh: int | None = None,
        pick: int | None = None,
        workers: int | None = None,
        pool: Pool | None = None,
        calibration: Any = None,
        memory: Memory | str | Path | None = None,
        observer: Observer = SILENT,
    ) -> Verification:
        """Check every claim again from its votes; with the model, also its votes. See `workflows.verify.verify`."""
        from smoothcert.workflows.verify import verify  # noqa: PLC0415

        return verify(
            self,
            model=model,
            data=self._data(data) if model is not None or memory is not None else None,
            share=share,
            fresh=fresh,
            pick=pick,
            workers=workers,
            pool=pool,
            calibration=calibration,
            memory=memory,
            observer=observer,
        )

    def attack(
        self,
        model: AnyModel,
        *,
        adversaries: Sequence[str] = ("pgd", "ddn"),
        radii: Sequence[float] | None = None,
        steps: int = 20,
        draws: int = 128,
        votes: int = 1_000,
        limit: int | None = None,
        out: str | Path | None = None,
        data: DataSource | None = None,
        workers: int | None = None,
        pool: Pool | None = None,
        calibration: Any = None,
        observer: Observer = SILENT,
    ) -> AttackResult:
        """Try to refute the certificates: nothing may succeed below a radius. See `workflows.attack.attack`."""
        from smoothcert.workflows.attack import attack  # noqa: PLC0415

        return attack(
            self,
            model,
            adversaries=adversaries,
            radii=radii,
            steps=steps,
            draws=draws,
            votes=votes,
            limit=limit,
            out=out,
            data=self._data(data),
            workers=workers,
            pool=pool,
            calibration=calibration,
            observer=observer,
        )

    def _data(self, given: DataSource | None) -> DataSource | None:
        return self.data if given is None else given

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {len(self.planned)} inputs planned)"
