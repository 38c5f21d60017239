"""A run of certificates on disk: what was planned, what is recorded, and the way to every certificate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

from smoothcert.core.errors import InputError
from smoothcert.procedures import Certificates
from smoothcert.runs.chain import Line
from smoothcert.runs.config import RunConfig
from smoothcert.runs.damage import DAMAGE
from smoothcert.runs.finding import Entry, Finding
from smoothcert.runs.folder import ChainedFolder, LineWriter
from smoothcert.runs.record import REST, Record, SharedSettings


class Run(ChainedFolder[RunConfig]):
    """A folder with the configuration of a run and a record per input, each certificate complete."""

    config_type: ClassVar[type[Any]] = RunConfig
    _parsed: tuple[list[Line], list[Record]] | None = None

    def certificates(self) -> Certificates:
        """All certificates that are there, in the order of the plan: a list, which prints as a table."""
        records = [record for record in self.records() if record.certificate is not None]
        names = [str(record.index) for record in records]
        found = (certificate for record in records if (certificate := record.certificate) is not None)
        return Certificates(found, class_names=self.config.class_names, input_names=names)

    def records(self) -> list[Record]:
        """All complete records, in the order of the plan. What is not as it was written is refused by line."""
        lines = self.lines()
        if self._parsed is None or self._parsed[0] is not lines:
            found: dict[int, Record] = {}
            for entry in self.entries():
                if entry.findings:
                    raise InputError(f"{self._file}, {entry.findings[0].sentence}; {REST}")
                assert entry.record is not None
                found[entry.record.index] = entry.record
            self._parsed = (lines, [found[index] for index in self.planned if index in found])
        return list(self._parsed[1])

    def entries(self) -> Iterator[Entry]:
        """Every complete line with all that is wrong with it, for an auditor; `records` refuses the first of it."""
        seen: set[int] = set()
        planned = set(self.planned)
        for line in self.lines():
            wrong = {} if line.wrong is None else {"chain": line.wrong}
            try:
                content = json.loads(line.text)
                record = Record.from_line(line, content, self._shared)
                foreign = self._shared.foreign(content["certificate"])
                wrong |= {name: f"was made with another {name} than its run" for name in foreign}
            except DAMAGE as error:
                wrong |= {"damaged": f"cannot be read ({error})"}
                yield Entry(line.number, line.text, None, _findings(wrong, None, line))
                continue
            if record.index in seen:
                wrong["repeated"] = f"repeats input {record.index}"
            elif record.index not in planned:
                wrong["not planned"] = f"is not planned: input {record.index}"
            seen.add(record.index)
            yield Entry(line.number, line.text, record, _findings(wrong, record.index, line))

    def line(self, record: Record, previous: str) -> bytes:
        """How the record stands in this run, after the line with the digest `previous`."""
        return record.to_line(self._shared, previous)

    @contextmanager
    def writing(self) -> Iterator[RecordWriter]:
        """Append records. One writer at a time; a second one is refused."""
        with self.appending() as writer:
            yield RecordWriter(self, writer)

    @cached_property
    def _shared(self) -> SharedSettings:
        return SharedSettings(self.config, self._file)


class RecordWriter:
    """The appending end of a run."""

    def __init__(self, run: Run, writer: LineWriter) -> None:
        self._run, self._writer = run, writer

    def append(self, record: Record) -> None:
        """Write one record and hand it to the operating system: from here on a kill does not lose it."""
        self._writer.append(lambda previous: self._run.line(record, previous))


def _findings(wrong: dict[str, str], index: int | None, line: Line) -> tuple[Finding, ...]:
    return tuple(Finding(c, f"line {line.number} {what}", index, line.number) for c, what in wrong.items())
