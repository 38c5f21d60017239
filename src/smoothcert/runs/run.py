"""A run is a folder: `run.json`, frozen at the start, and `records.jsonl`, one line per input, appended and flushed.

A run that was killed at any moment resumes: what is planned minus what is recorded. A torn last line is dropped.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.noise.base import noise_kind
from smoothcert.runs.finding import Entry, Finding
from smoothcert.runs.record import Record

FORMAT = 2
# What reading JSON that was made by somebody else can raise.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError)
HALF = ".run.json."  # a configuration being written; a kill may leave it behind


class Run:
    """A folder with a configuration and records. Made by `start` (new or the same again) or `open` (read)."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self.config = config

    @classmethod
    def start(cls, path: Path, config: Mapping[str, Any]) -> Run:
        """Make the folder, or take up the run in it if its configuration is the same.

        Another configuration is refused, naming what differs: runs are never mixed and never overwritten.
        """
        wanted = json.loads(json.dumps({"format": FORMAT, **config}))
        run = cls.at(path)
        if run is not None:
            if run.config != wanted:
                raise InputError(
                    f"{path} holds a run with another configuration ({_difference(run.config, wanted)}); "
                    "give another --out, or the old settings to resume it"
                )
            return run
        path.mkdir(parents=True, exist_ok=True)
        half = path / f"{HALF}{secrets.token_hex(8)}"
        with half.open("w") as file:
            json.dump(wanted, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(half, path / "run.json")  # unlike a rename it fails where somebody was faster
        except FileExistsError:
            return cls.start(path, config)
        finally:
            half.unlink()
        return cls(path, wanted)

    @classmethod
    def at(cls, path: Path) -> Run | None:
        """The run in a folder, or None where there is room for one; anything else there is refused."""
        if (path / "run.json").exists():
            return cls.open(path)
        strangers = path.is_dir() and any(not file.name.startswith(HALF) for file in path.iterdir())
        if path.is_file() or strangers:
            raise InputError(f"{path} exists and is not a run; give another --out")
        return None

    @classmethod
    def open(cls, path: Path) -> Run:
        """Read the configuration of an existing run."""
        try:
            config = json.loads((path / "run.json").read_text())
        except OSError:
            raise InputError(f"{path} is not a run: it has no readable run.json") from None
        except (ValueError, RecursionError):
            raise InputError(f"{path / 'run.json'} is not JSON: it was damaged; certify into a new folder") from None
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            raise InputError(f"{path / 'run.json'} is not a run of format {FORMAT}; use the version that wrote it")
        indices = config.get("indices")
        if (
            not isinstance(indices, list)
            or not all(type(i) is int for i in indices)
            or len(set(indices)) < len(indices)
        ):
            raise InputError(f"{path / 'run.json'} does not say which inputs are planned: it was damaged")
        return cls(path, config)

    @property
    def planned(self) -> list[int]:
        """The indices that the run set out to certify."""
        return list(self.config["indices"])

    def records(self) -> list[Record]:
        """All complete records, in the order of the plan. Damage is refused by line, not skipped."""
        found: dict[int, Record] = {}
        for entry in self.entries():
            if entry.findings:
                raise InputError(f"{self._file}, {entry.findings[0].sentence}; delete that line and resume")
            assert entry.record is not None
            found[entry.record.index] = entry.record
        return [found[index] for index in self.planned if index in found]

    def entries(self) -> Iterator[Entry]:
        """Every complete line with all that is wrong with it, for an auditor; `records` refuses the first of it."""
        seen: set[int] = set()
        planned = set(self.planned)
        for number, line in enumerate(self._lines(), start=1):
            try:
                record = Record.from_json(json.loads(line))
            except DAMAGE as error:
                finding = Finding("damaged", f"line {number} is damaged ({error})", line=number)
                yield Entry(number, line, None, (finding,))
                continue
            wrong: dict[str, str] = {}
            if record.index in seen:
                wrong["repeated"] = f"repeats input {record.index}"
            elif record.index not in planned:
                wrong["not planned"] = f"is not planned: input {record.index}"
            for name in self._foreign(record):
                wrong[name] = f"was made with another {name} than its run"
            seen.add(record.index)
            found = (Finding(c, f"line {number} {what}", record.index, number) for c, what in wrong.items())
            yield Entry(number, line, record, tuple(found))

    @property
    def torn(self) -> bool:
        """The last line has no end: a kill in the middle of a write, or a file that was cut."""
        return self._content()[-1:] not in (b"", b"\n")

    def _foreign(self, record: Record) -> list[str]:
        """What the certificate names otherwise than the run does."""
        certificate = record.certificate
        assert certificate is not None
        given = {name: getattr(certificate, name) for name in ("classifier", "procedure", "seed")}
        given["noise"] = self._shared(certificate.noise)
        wanted = {name: self._shared(value) if name == "noise" else value for name, value in self.config.items()}
        return [name for name, value in given.items() if name in wanted and wanted[name] != value]

    def _shared(self, noise: Any) -> Any:
        """Of a noise what all inputs share: not how far one is from its grid, nor a strength that was found for it."""
        kind = noise_kind(noise)
        if kind is None:
            return noise
        own = kind.of_one_input | ({kind.strength_name} if "sigma_search" in self.config else set())
        return {k: v for k, v in noise.items() if k not in own}

    @contextmanager
    def writing(self) -> Iterator[RunWriter]:
        """Append records. One writer at a time; a second one is refused."""
        with self._file.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(f"{self.path} is being written by another process; wait for it or stop it") from None
            whole = sum(map(len, self._lines())) if file.tell() else 0
            file.truncate(whole)  # a torn last line, from a kill in the middle of a write
            yield RunWriter(file)
            os.fsync(file.fileno())

    @property
    def _file(self) -> Path:
        return self.path / "records.jsonl"

    def _content(self) -> bytes:
        try:
            return self._file.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(f"{self._file} cannot be read ({error.strerror}); give a run folder") from None

    def _lines(self) -> list[bytes]:
        lines = self._content().splitlines(keepends=True)
        return lines[:-1] if lines and not lines[-1].endswith(b"\n") else lines


class RunWriter:
    """The appending end of a run."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def append(self, record: Record) -> None:
        """Write one line and hand it to the operating system: from here on a kill does not lose it."""
        self._file.write(json.dumps(record.to_json(), separators=(",", ":")).encode() + b"\n")
        self._file.flush()


def _difference(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> str:
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            return _difference(a, b, f"{prefix}{key}.")
        if isinstance(a, list) or isinstance(b, list):
            return f"{prefix}{key} differs"
        return f"{prefix}{key} is {a!r}, now {b!r}"
    return "nothing"
