"""Regions in one SQLite file: for one machine, any number of processes."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.core.files import clear_drafts, write_whole
from smoothcert.memory.store import Head, Region, Store, read_owner, write_owner

APPLICATION = 0x534D4345  # "SMCE", in the header of the file
PATIENCE = 120.0  # seconds to wait for another writer
MOST_IDS = 500  # in one statement
SCHEMA = """
CREATE TABLE memory (owner TEXT NOT NULL, regions INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TABLE regions (
    id INTEGER PRIMARY KEY,
    label INTEGER NOT NULL,
    radius REAL NOT NULL,
    input BLOB NOT NULL,
    about TEXT NOT NULL,
    digest TEXT NOT NULL
);
"""


class SqliteStore(Store):
    """Write-ahead log, flushed to the disk by every commit; writers queue up (BEGIN IMMEDIATE), readers never wait."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None
        self._file = (0, 0)  # which file that is

    @property
    def name(self) -> str:
        """The path."""
        return str(self._path)

    def owner(self) -> dict[str, Any] | None:
        """From the file, if it is there."""
        with self._polite():
            if self._opened is None and not self._path.exists():
                return None
            rows = self._connection.execute("SELECT owner FROM memory").fetchall()
        return read_owner(self.name, rows)

    def create(self, owner: Mapping[str, Any]) -> None:
        """Made in memory, so that what has the name is whole."""
        with self._polite():
            self._check_locks()
            with suppress(FileExistsError):
                write_whole(self._path, _new_database(write_owner(owner)), new=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """BEGIN IMMEDIATE takes the only write lock before anything is read."""
        with self._polite():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
                self._check_there()  # what went into a file that nobody will open again is not safe
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def add(self, region: Region) -> None:
        """One row, and how far the rows go."""
        values = (region.id, region.label, region.radius, region.input, region.about, region.digest)
        self._connection.execute("INSERT INTO regions VALUES (?, ?, ?, ?, ?, ?)", values)
        self._connection.execute("UPDATE memory SET regions = ?, digest = ?", (region.id, region.digest))

    def head(self) -> Head:
        """From its row; also looks whether the file is still the one that was opened."""
        with self._polite():
            rows = self._connection.execute("SELECT regions, digest FROM memory").fetchall()
            self._check_there()
        if len(rows) != 1 or tuple(map(type, rows[0])) != (int, str):
            raise InputError(f"memory {self._path} is damaged: it does not say how many regions it has")
        return Head(*rows[0])

    def digest(self, id_: int) -> str | None:
        """By primary key."""
        with self._polite():
            row = self._connection.execute("SELECT digest FROM regions WHERE id = ?", (id_,)).fetchone()
        return None if row is None else str(row[0])

    def after(self, id_: int, digest: str) -> Iterator[Region]:
        """By primary key."""
        with self._polite():
            for row in self._connection.execute("SELECT * FROM regions WHERE id > ? ORDER BY id", (id_,)):
                region = Region.read(row, id_, digest)
                id_, digest = region.id, region.digest
                yield region

    def inputs(self, ids: Sequence[int]) -> list[bytes]:
        """By primary key."""
        found: dict[int, bytes] = {}
        with self._polite():
            for start in range(0, len(ids), MOST_IDS):
                part = ids[start : start + MOST_IDS]
                marks = ",".join("?" * len(part))
                found |= dict(
                    self._connection.execute(f"SELECT id, input FROM regions WHERE id IN ({marks})", part).fetchall()
                )
            return [found[id_] for id_ in ids]

    def close(self) -> None:
        """The last one to close folds the log into the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            clear_drafts(self._path.parent)  # of whoever was killed when the file just had its name
            where = f"{self._path.absolute().as_uri()}?mode=rw"  # never makes a file
            opened = sqlite3.connect(where, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                if opened.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
                    raise InputError(f"{self._path} is a database, but not a memory; give another path")
                opened.execute("PRAGMA synchronous = FULL")
                file = _identity(self._path)
            except BaseException:
                opened.close()
                raise
            self._opened, self._file = opened, file
        return self._opened

    def _check_there(self) -> None:
        if _identity(self._path) != self._file:
            raise InputError(f"memory {self._path} was replaced while it was open; open it again")

    def _check_locks(self) -> None:
        """Where files cannot be locked, SQLite would wait for its turn for ever, or not at all."""
        with tempfile.TemporaryFile(dir=self._path.parent) as probe:
            try:
                fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"memory {self._path} would be on a file system that cannot lock files; choose a local disk, or "
                    "keep the memory in PostgreSQL"
                ) from None

    @contextmanager
    def _polite(self) -> Iterator[None]:
        try:
            yield
        except UnicodeError as error:  # in SQLite's own message about damage
            raise InputError(f"memory {self._path} is damaged; bring back a copy of it") from error
        except (sqlite3.Error, OSError, OverflowError, MemoryError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL):
                raise InputError(
                    f"memory {self._path} was locked for {PATIENCE:.0f} seconds: another process keeps writing, or its "
                    "file system cannot lock files; stop that process, or choose a local disk or PostgreSQL"
                ) from error
            raise InputError(
                f"memory {self._path} cannot be used ({error}); give a memory file of smoothcert"
            ) from error
        except KeyError as error:
            raise InputError(f"memory {self._path} is damaged: region {error} is gone") from None


def _new_database(owner: str) -> bytes:
    """The content of a file with the tables, in the mode of a write-ahead log."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.executescript(f"PRAGMA application_id = {APPLICATION}; {SCHEMA}")
        made.execute("INSERT INTO memory VALUES (?, 0, '')", (owner,))
        content = bytearray(made.serialize())
    content[18:20] = b"\x02\x02"  # "file format write and read version": 2 is WAL (sqlite.org/fileformat.html, 1.3.3)
    return bytes(content)


def _identity(path: Path) -> tuple[int, int]:
    """Which file has the name now."""
    about = os.stat(path)
    return about.st_dev, about.st_ino
