"""Certificates without a model, and a PostgreSQL of our own."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from smoothcert.procedures import ABSTAIN, Certificate, Scope
from smoothcert.stats import Tally


def certified(label: int, radius: float, norm: str = "l2", **changes: Any) -> Certificate:
    """What the draws might have said."""
    about: dict[str, Any] = {
        "reason": "as simulated",
        "alpha": 0.001,
        "procedure": {"name": "simulated"},
        "answers": (("bound", Tally((1, 2, 3))),),
        "noise": ({"name": "gaussian", "sigma": radius} if norm == "l2" else {"name": "uniform", "half_width": radius})
        | {"norm": norm},
        "classifier": {"fingerprint": "f", "kind": "Net", "backend": {"name": "eager"}, "torch": "2"},
        "scope": Scope.OWN,
    }
    assert label != ABSTAIN or not radius
    return Certificate(label=label, radius=radius, norm=norm, p_lower=0.5, **about | changes)


@pytest.fixture(name="certified")
def _certified() -> Callable[..., Certificate]:
    return certified


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that lives as long as the tests."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL is not installed here: initdb and pg_ctl are not found")
    # initdb refuses root.
    start = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="smoothcert-pg-") as folder:
        path, port = Path(folder), _free_port()
        try:
            if start:
                shutil.chown(path, "postgres")
            made = subprocess.run(
                [*start, "initdb", "-D", str(path / "data"), "-U", "postgres", "-A", "trust", "--no-sync"],
                capture_output=True, text=True, check=False, cwd=path,
            )  # fmt: skip
        except (OSError, LookupError) as error:
            pytest.skip(f"PostgreSQL cannot be run here: {error}")
        if made.returncode:
            pytest.skip(f"PostgreSQL cannot be run here: initdb says {made.stderr.strip()}")
        control = [*start, "pg_ctl", "-D", str(path / "data"), "-w", "-l", str(path / "log")]
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {path}"
        subprocess.run([*control, "-o", options, "start"], check=True, capture_output=True, cwd=path)
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True, cwd=path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new memory may be made: a file, or a schema of its own on the server."""
    if request.param == "sqlite":
        return str(tmp_path / "regions.sqlite")
    import psycopg

    url = request.getfixturevalue("postgres")
    name = f"s{abs(hash(request.node.nodeid)):x}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}?options=-csearch_path%3D{name}"
