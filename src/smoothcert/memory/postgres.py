"""Regions in a PostgreSQL database: shared by any number of machines."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.memory.address import Address
from smoothcert.memory.store import ConnectionLostError, Head, Region, Store, read_owner, write_owner

MAKING = 0x534D4345  # advisory lock: tables are made by one at a time
PATIENCE = 120  # seconds to wait for another writer
ATTEMPTS = 5
RETURN = 60.0  # seconds to wait for a server that went away
SCHEMA = """
CREATE TABLE smoothcert_memory (owner TEXT NOT NULL, regions BIGINT NOT NULL, digest TEXT NOT NULL);
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

    Writers queue up for a table lock, taken before anything is read; readers never wait. A server that is restarted is
    waited for: questions are asked again, and who writes is told by `ConnectionLostError`.
    """

    def __init__(self, address: Address) -> None:
        try:
            self._driver: Any = import_module("psycopg")
        except ImportError:
            raise InputError("memory in PostgreSQL needs psycopg: pip install 'smoothcert[postgres]'") from None
        self._address, self._name, self._id, self._transaction = address, "PostgreSQL", "", False
        with self._polite():
            self._connection = self._connect()
            about = self._connection.info
            self._name = f"postgresql://{about.host}:{about.port}/{about.dbname}"

    @property
    def name(self) -> str:
        """Host, port and database; never the user or the password."""
        return self._name

    def owner(self) -> dict[str, Any] | None:
        """From its table, if it is there."""
        with self._polite():
            self._live()
            found = self._owner()
        self._id = str(found["id"]) if found is not None else ""
        return found

    def create(self, owner: Mapping[str, Any]) -> None:
        """All tables and the owner in one transaction."""
        with self._polite():
            self._live()
            # Before the transaction: one that began earlier might not see the tables that another has just made.
            self._connection.execute("SELECT pg_advisory_lock(%s)", (MAKING,))
            try:
                with self._connection.transaction():
                    if not self._is_made():
                        self._connection.execute(SCHEMA)
                        values = (write_owner(owner),)
                        self._connection.execute("INSERT INTO smoothcert_memory VALUES (%s, 0, '')", values)
            finally:
                if not self._connection.closed:
                    self._connection.execute("SELECT pg_advisory_unlock(%s)", (MAKING,))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The lock conflicts with itself and with every other writer, and not with readers."""
        with self._polite():
            self._live()
            with self._connection.transaction():
                self._connection.execute("LOCK TABLE smoothcert_regions IN EXCLUSIVE MODE")
                self._transaction = True
                try:
                    yield
                finally:
                    self._transaction = False

    def add(self, region: Region) -> None:
        """One row, and how far the rows go."""
        values = (region.id, region.label, region.radius, region.input, region.about, region.digest)
        self._connection.execute("INSERT INTO smoothcert_regions VALUES (%s, %s, %s, %s, %s, %s)", values)
        last = (region.id, region.digest)
        self._connection.execute("UPDATE smoothcert_memory SET regions = %s, digest = %s", last)

    def head(self) -> Head:
        """From its row."""
        rows = self._ask("SELECT regions, digest FROM smoothcert_memory")
        if len(rows) != 1:
            raise InputError(f"memory {self._name} is damaged: it does not say how many regions it has")
        return Head(*rows[0])

    def digest(self, id_: int) -> str | None:
        """By primary key."""
        rows = self._ask("SELECT digest FROM smoothcert_regions WHERE id = %s", (id_,))
        return str(rows[0][0]) if rows else None

    def after(self, id_: int, digest: str) -> Iterator[Region]:
        """In portions, so that a large memory is not held twice."""
        while True:
            rows = self._ask("SELECT * FROM smoothcert_regions WHERE id > %s ORDER BY id LIMIT 4096", (id_,))
            if not rows:
                return
            for row in rows:
                region = Region.read(row, id_, digest)
                id_, digest = region.id, region.digest
                yield region

    def inputs(self, ids: Sequence[int]) -> list[bytes]:
        """One question for all."""
        if not ids:
            return []
        found = dict(self._ask("SELECT id, input FROM smoothcert_regions WHERE id = ANY(%s)", (list(ids),)))
        with self._polite():
            return [bytes(found[id_]) for id_ in ids]

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def _connect(self) -> Any:
        connection = self._driver.connect(self._address.url, autocommit=True, connect_timeout=10)
        connection.execute(f"SET lock_timeout = '{PATIENCE}s'")
        connection.execute("SET synchronous_commit = on")
        return connection

    def _live(self) -> None:
        """A connection that works; a server that went away is waited for, and must have the same memory then."""
        end = time.monotonic() + RETURN
        while self._connection.closed:
            try:
                self._connection = self._connect()
                if self._id and (self._owner() or {}).get("id") != self._id:
                    raise InputError(f"memory {self._name} was replaced while it was open; open it again")
            except self._driver.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def _ask(self, question: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of an answer; asked again if the server went away, unless a transaction went with it."""
        with self._polite():
            for attempt in range(ATTEMPTS):
                try:
                    if not self._transaction:
                        self._live()
                    return self._rows(question, values)
                except self._driver.OperationalError:
                    if self._transaction or not self._connection.closed or attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("the last attempt answers or raises")

    def _rows(self, question: str, values: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._connection.execute(question, values or None, binary=True).fetchall()
        return rows

    def _owner(self) -> dict[str, Any] | None:
        if not self._is_made():
            return None
        return read_owner(self.name, self._rows("SELECT owner FROM smoothcert_memory"))

    def _is_made(self) -> bool:
        return self._rows("SELECT to_regclass('smoothcert_regions') IS NOT NULL") == [(True,)]

    @contextmanager
    def _polite(self) -> Iterator[None]:
        try:
            yield
        except self._driver.Error as error:
            connection = getattr(self, "_connection", None)
            kind = ConnectionLostError if connection is not None and connection.closed else InputError
            raise kind(
                f"memory {self._name} cannot be used ({self._reason(error)}); check the address and the server"
            ) from None
        except KeyError as error:
            raise InputError(f"memory {self._name} is damaged: region {error} is gone") from None

    def _reason(self, error: Exception) -> str:
        """What the driver says, without the texts that it quotes and without any part of the address that is secret."""
        hosts = self._address.hosts
        said = " ".join(str(error).split())
        said = re.sub('"([^"]*)"', lambda quoted: quoted[0] if quoted[1] in hosts else '"..."', said)
        return "its message is left out: it holds a secret" if any(s in said for s in self._address.secrets) else said
