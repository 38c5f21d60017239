"""A folder with `run.json`, frozen at the start, and `records.jsonl`, chained lines that are appended and flushed.

What was killed at any moment goes on: what is planned minus what is recorded. A torn last line is dropped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, Protocol, Self, TypeVar

from smoothcert.core.described import from_json, plain
from smoothcert.core.errors import InputError
from smoothcert.core.files import DRAFT, clear_drafts, flush_folder, write_whole
from smoothcert.runs.chain import Line, chained
from smoothcert.runs.config import config_digest
from smoothcert.runs.damage import DAMAGE, damaged
from smoothcert.runs.differences import refusal
from smoothcert.runs.locking import only_writer
from smoothcert.runs.made import Made

FORMAT = 4
QUIET = 10**9  # nanoseconds without a write, after which what was read is read no more


class Planned(Protocol):
    """What every configuration says: which inputs there will be lines of, in order."""

    @property
    def indices(self) -> tuple[int, ...]:
        """The plan."""


C = TypeVar("C", bound=Planned)
Stamp = tuple[int, int, int]


class ChainedFolder(Generic[C]):
    """A configuration and lines. Made by `start` (new, or the same again) or `open` (read)."""

    config_type: ClassVar[type[Any]]

    def __init__(self, path: Path, config: C, *, digest: str, made: Made) -> None:
        self.path = path
        self.config = config
        self.digest = digest
        self.made = made
        self._read: tuple[Stamp, list[Line], bool] | None = None

    @classmethod
    def start(cls, path: str | Path, config: C, *, command: str = "") -> Self:
        """Make the folder, or take up what is in it if its configuration is the same.

        Another configuration is refused, naming what differs: runs are never mixed and never overwritten. `command` is
        what the user typed; when and where a run was made is noted beside it.
        """
        path = Path(path)
        run = cls.at(path)
        if run is not None:
            clear_drafts(path)
            if config_digest(plain(config)) != run.digest:
                raise InputError(refusal(path, run.config, config))
            return run
        path.mkdir(parents=True, exist_ok=True)
        content = plain(config)
        digest, made = config_digest(content), Made.here(command)
        text = json.dumps({"format": FORMAT, "config": content, "digest": digest, "made": plain(made)}, indent=2)
        try:
            write_whole(path / "run.json", text.encode(), new=True)
        except FileExistsError:  # somebody was faster
            return cls.start(path, config, command=command)
        return cls(path, config, digest=digest, made=made)

    @classmethod
    def at(cls, path: str | Path) -> Self | None:
        """What is in a folder, or None where there is room for one; anything else there is refused."""
        path = Path(path)
        if (path / "run.json").exists():
            return cls.open(path)
        strangers = path.is_dir() and any(not file.name.startswith(DRAFT) for file in path.iterdir())
        if path.is_file() or strangers:
            raise InputError(f"{path} exists and is not a run; give another --out")
        return None

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read the configuration; one that was changed, or is of another format, is refused."""
        path = Path(path)
        file = path / "run.json"
        try:
            content = json.loads(file.read_text(), object_pairs_hook=_without_repeats)
        except OSError:
            raise InputError(f"{path} is not a run: it has no readable run.json") from None
        except (ValueError, RecursionError) as error:
            raise damaged(file, f"it is not JSON ({error})") from None
        _check_format(file, content)
        if config_digest(content.get("config")) != content.get("digest"):
            raise damaged(file, "its settings are not those that its digest was made of")
        try:
            config = from_json(cls.config_type, content["config"], "its configuration")
        except DAMAGE as error:
            raise damaged(file, str(error)) from None
        return cls(path, config, digest=content["digest"], made=Made.read(content.get("made")))

    @property
    def planned(self) -> tuple[int, ...]:
        """The indices that there will be a line of."""
        return self.config.indices

    def lines(self) -> list[Line]:
        """Every complete line, with what is wrong about its place in the chain. Read once, as long as nobody writes."""
        return self._content()[1]

    @property
    def torn(self) -> bool:
        """The last line has no end: a kill in the middle of a write, or a file that was cut."""
        return self._content()[2]

    @contextmanager
    def appending(self) -> Iterator[LineWriter]:
        """Append lines. One writer at a time; a second one is refused.

        A file that was deleted or replaced meanwhile is noticed at the next line, and at the end.
        """
        with self._file.open("ab") as file, only_writer(file, self.path):
            lines = self.lines()
            whole = sum(len(line.text) + 1 for line in lines)
            if whole < os.fstat(file.fileno()).st_size:
                file.truncate(whole)  # a torn last line, from a kill in the middle of a write
            writer = LineWriter(file, self._file, lines[-1].digest if lines else self.digest, whole)
            yield writer
            writer.check()
            os.fsync(file.fileno())
            if not lines:
                flush_folder(self.path)  # the file is new: its name must outlast a power cut, too

    @property
    def _file(self) -> Path:
        return self.path / "records.jsonl"

    def _content(self) -> tuple[Stamp, list[Line], bool]:
        try:
            with self._file.open("rb") as file:
                stamp = _stamp(os.fstat(file.fileno()))
                if self._read is not None and self._read[0] == stamp:
                    return self._read
                texts = file.read().split(b"\n")
        except FileNotFoundError:
            return (0, 0, 0), [], False
        except OSError as error:
            raise InputError(f"{self._file} cannot be read ({error.strerror}); give a run folder") from None
        torn = bool(texts.pop())
        found = (stamp, list(chained(texts, self.digest)), torn)
        # A file that was written just now may be written again within the same tick of its clock.
        self._read = found if time.time_ns() - stamp[2] > QUIET else None
        return found


class LineWriter:
    """The appending end of a folder."""

    def __init__(self, file: BinaryIO, path: Path, last: str, size: int) -> None:
        self._file, self._path, self._last, self._size = file, path, last, size

    def append(self, line: Callable[[str], bytes]) -> None:
        """Write the line that follows a digest, and hand it to the operating system: a kill does not lose it."""
        self.check()
        text = line(self._last)
        self._file.write(text)
        self._file.flush()
        self._size += len(text)
        self._last = Line(0, text[:-1], None).digest

    def check(self) -> None:
        """Refuse to go on where the file that is written is no longer the one that lies there."""
        ours = os.fstat(self._file.fileno())
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            raise self._gone("was deleted") from None
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise self._gone("was replaced")
        if there.st_size != self._size:
            raise self._gone("was changed by somebody else")

    def _gone(self, what: str) -> InputError:
        return InputError(
            f"{self._path} {what} while the run was writing to it, so the run was stopped and not all of its records "
            "are there; run the same command again to certify what is missing"
        )


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise ValueError(f"{twice!r} stands twice in one object")
    return found


def _check_format(file: Path, content: Any) -> None:
    written = content.get("format") if isinstance(content, dict) else None
    if written == FORMAT and type(written) is int:
        return
    if type(written) is not int:
        raise damaged(file, "it is not a run of smoothcert")
    age = "an older" if written < FORMAT else "a newer"
    raise InputError(
        f"{file} is of format {written}, which {age} version of smoothcert wrote; this version reads format {FORMAT}: "
        "use that version, or certify again into a new folder"
    )
