"""Regions in one SQLite file: for one machine, any number of processes."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.memory.store import Region, Store, read_owner

APPLICATION = 0x534D4345  # "SMCE", in the header of the file
PATIENCE = 120.0  # seconds to wait for another writer
MOST_IDS = 500  # in one statement
SCHEMA = """
CREATE TABLE memory (owner TEXT NOT NULL);
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
        if self._opened is None and not self._path.exists():
            return None
        with self._polite():
            row = self._connection.execute("SELECT owner FROM memory").fetchone()
        return read_owner(self.name, row[0] if row else "")

    def create(self, owner: Mapping[str, Any]) -> None:
        """Written under another name first, so that what has the name is whole."""
        half = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        with self._polite():
            try:
                made = sqlite3.connect(half, isolation_level=None)
                try:
                    made.executescript(f"PRAGMA application_id = {APPLICATION}; PRAGMA journal_mode = WAL; {SCHEMA}")
                    made.execute("INSERT INTO memory VALUES (?)", (json.dumps(owner),))
                finally:
                    made.close()
                os.link(half, self._path)  # unlike a rename it fails where somebody was faster
                _flush_folder(self._path.parent)
            except FileExistsError:
                pass
            finally:
                for end in ("", "-wal", "-shm"):
                    half.with_name(half.name + end).unlink(missing_ok=True)

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
        """One row."""
        values = (region.id, region.label, region.radius, region.input, region.about, region.digest)
        self._connection.execute("INSERT INTO regions VALUES (?, ?, ?, ?, ?, ?)", values)

    def after(self, id_: int) -> Iterator[Region]:
        """By primary key."""
        with self._polite():
            rows = self._connection.execute("SELECT * FROM regions WHERE id > ? ORDER BY id", (id_,))
            self._check_there()
            for row in rows:
                yield Region.read(row, id_)
                id_ += 1

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
            where = f"{self._path.absolute().as_uri()}?mode=rw"  # never makes a file
            opened = sqlite3.connect(where, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            if opened.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
                opened.close()
                raise InputError(f"{self._path} is a database, but not a memory; give another path")
            opened.execute("PRAGMA synchronous = FULL")
            self._opened, self._file = opened, _identity(self._path)
        return self._opened

    def _check_there(self) -> None:
        if _identity(self._path) != self._file:
            raise InputError(f"memory {self._path} was replaced while it was open; open it again")

    @contextmanager
    def _polite(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise InputError(
                f"memory {self._path} cannot be used ({error}); give a memory file of smoothcert"
            ) from error
        except KeyError as error:
            raise InputError(f"memory {self._path} is damaged: region {error} is gone") from None


def _identity(path: Path) -> tuple[int, int]:
    """Which file has the name now."""
    about = path.stat()
    return about.st_dev, about.st_ino


def _flush_folder(folder: Path) -> None:
    """The name of a new file is safe only when its folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
