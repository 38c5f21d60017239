"""Regions in a PostgreSQL database: shared by any number of machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.memory.store import Region, Store, read_owner

MAKING = 0x534D4345  # advisory lock: tables are made by one at a time
PATIENCE = 120  # seconds to wait for another writer
SCHEMA = """
CREATE TABLE smoothcert_memory (owner TEXT NOT NULL);
CREATE TABLE smoothcert_regions (
    id BIGINT PRIMARY KEY,
    label BIGINT NOT NULL,
    radius DOUBLE PRECISION NOT NULL,
    input BYTEA NOT NULL,
    about TEXT NOT NULL,
    digest TEXT NOT NULL
);
"""


class PostgresStore(Store):
    """One memory per database, or per schema: `postgresql://host/db?options=-csearch_path%3Dname`.

    Writers queue up for a table lock, taken before anything is read; readers never wait.
    """

    def __init__(self, url: str) -> None:
        try:
            self._driver: Any = import_module("psycopg")
        except ImportError:
            raise InputError("memory in PostgreSQL needs psycopg: pip install 'smoothcert[postgres]'") from None
        self._name = "PostgreSQL"
        with self._polite():
            self._connection = self._driver.connect(url, autocommit=True, connect_timeout=10)
            about = self._connection.info
            self._name = f"postgresql://{about.host}:{about.port}/{about.dbname}"
            self._connection.execute(f"SET lock_timeout = '{PATIENCE}s'")
            self._connection.execute("SET synchronous_commit = on")

    @property
    def name(self) -> str:
        """Host, port and database; never the password."""
        return self._name

    def owner(self) -> dict[str, Any] | None:
        """From its table, if it is there."""
        with self._polite():
            if self._connection.execute("SELECT to_regclass('smoothcert_regions')").fetchone()[0] is None:
                return None
            row = self._connection.execute("SELECT owner FROM smoothcert_memory").fetchone()
        return read_owner(self.name, row[0] if row else "")

    def create(self, owner: Mapping[str, Any]) -> None:
        """All tables and the owner in one transaction."""
        with self._polite():
            # Before the transaction: one that began earlier might not see the tables that another has just made.
            self._connection.execute("SELECT pg_advisory_lock(%s)", (MAKING,))
            try:
                with self._connection.transaction():
                    if self._connection.execute("SELECT to_regclass('smoothcert_regions')").fetchone()[0] is None:
                        self._connection.execute(SCHEMA)
                        self._connection.execute("INSERT INTO smoothcert_memory VALUES (%s)", (json.dumps(owner),))
            finally:
                self._connection.execute("SELECT pg_advisory_unlock(%s)", (MAKING,))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The lock conflicts with itself and with every other writer, and not with readers."""
        with self._polite(), self._connection.transaction():
            self._connection.execute("LOCK TABLE smoothcert_regions IN EXCLUSIVE MODE")
            yield

    def add(self, region: Region) -> None:
        """One row."""
        values = (region.id, region.label, region.radius, region.input, region.about, region.digest)
        self._connection.execute("INSERT INTO smoothcert_regions VALUES (%s, %s, %s, %s, %s, %s)", values)

    def after(self, id_: int) -> Iterator[Region]:
        """In portions, so that a large memory is not held twice."""
        while True:
            with self._polite():
                rows = self._connection.execute(
                    "SELECT * FROM smoothcert_regions WHERE id > %s ORDER BY id LIMIT 4096", (id_,), binary=True
                ).fetchall()
            if not rows:
                return
            for row in rows:
                yield Region.read(row, id_)
                id_ += 1

    def inputs(self, ids: Sequence[int]) -> list[bytes]:
        """One question for all."""
        if not ids:
            return []
        with self._polite():
            rows = self._connection.execute(
                "SELECT id, input FROM smoothcert_regions WHERE id = ANY(%s)", (list(ids),), binary=True
            ).fetchall()
            found = dict(rows)
            return [bytes(found[id_]) for id_ in ids]

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    @contextmanager
    def _polite(self) -> Iterator[None]:
        try:
            yield
        except self._driver.Error as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"memory {self._name} cannot be used ({reason}); check the address and the server"
            ) from None
        except KeyError as error:
            raise InputError(f"memory {self._name} is damaged: region {error} is gone") from None
