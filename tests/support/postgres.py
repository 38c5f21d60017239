"""A PostgreSQL of our own, in a folder of its own, for as long as the tests take."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


class Server:
    """A PostgreSQL server in a folder of its own; the role `keeper` needs the password."""

    PASSWORD = "S3CRET/@:?#%50"

    def __init__(self, folder: Path) -> None:
        # initdb refuses root.
        self._start = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self._folder, self.port = folder, _free_port()
        if self._start:
            shutil.chown(folder, "postgres")
        self._call("initdb", "-U", "postgres", "-A", "trust", "--no-sync")
        access = folder / "data" / "pg_hba.conf"
        access.write_text(f"host all keeper 127.0.0.1/32 scram-sha-256\n{access.read_text()}")

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self._folder}"
        self._call("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Immediate: as if it had crashed."""
        self._call("pg_ctl", "-w", "-m", mode, "stop")

    def url(self, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/postgres"

    def _call(self, program: str, *arguments: str) -> None:
        command = [*self._start, program, "-D", str(self._folder / "data"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder, timeout=120)
        if done.returncode:
            raise OSError(f"{program} says {done.stderr.strip()} {done.stdout.strip()}")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server that lives as long as the tests."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL is not installed here: initdb and pg_ctl are not found")
    with tempfile.TemporaryDirectory(prefix="smoothcert-pg-") as folder:
        try:
            made = Server(Path(folder))
        except (OSError, LookupError) as error:
            pytest.skip(f"PostgreSQL cannot be run here: {error}")
        made.start()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(scope="session")
def postgres(server: Server) -> str:
    """Its address."""
    return server.url()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
