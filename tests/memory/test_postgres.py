"""PostgreSQL: a password is never shown, and a server that goes away and comes back loses nothing."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.core.errors import InputError
from smoothcert.memory import Memory
from smoothcert.memory import postgres as module
from smoothcert.procedures import Certificate

psycopg = pytest.importorskip("psycopg")
Certified = Callable[..., Certificate]
RESTARTS = 4


def point(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


@pytest.fixture
def schema(server: Any, request: pytest.FixtureRequest) -> str:
    name = f"p{abs(hash(request.node.nodeid)):x}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"GRANT ALL ON SCHEMA {name} TO PUBLIC")
    return f"options=-csearch_path%3D{name}"


def with_password(server: Any, password: str) -> str:
    return f"postgresql://keeper:{quote(password, safe='')}@127.0.0.1:{server.port}/postgres"


@pytest.fixture(scope="module")
def keeper(server: Any) -> str:
    """The address of the role with a password."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{server.PASSWORD}'")
    return with_password(server, server.PASSWORD)


def test_the_password_lets_in_and_is_never_shown(server: Any, keeper: str, schema: str, certified: Certified) -> None:
    with Memory(f"{keeper}?{schema}") as memory:
        memory.insert(point(0, 0), certified(1, 1.0))
        shown = json.dumps(memory.info()) + memory.name + repr(memory) + repr(memory._store) + str(vars(memory))
        assert "S3CRET" not in shown
        assert quote(server.PASSWORD, safe="") not in shown
        with pytest.raises(InputError) as caught:
            memory.insert(point(0, 0, 0), certified(1, 1.0))
        assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize("command", ["info", "check", "export"])
@pytest.mark.parametrize("wrong", ["S3CRET-wrong", "keeper", "postgres", "FATAL", "a"])
def test_a_wrong_password_is_not_repeated(server: Any, keeper: str, wrong: str, command: str, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "x.npz")) if command == "export" else ()
    done = CliRunner().invoke(app, ["memory", command, with_password(server, wrong), *out])
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "cannot be used" in done.stderr
    assert len(wrong) < 6 or wrong not in done.stderr.replace("PostgreSQL", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["{}"],
        ["certify", "{}"],
        ["memory", "{}"],
        ["memory", "info", "x", "{}"],
        ["memory", "info", "--memory={}", "x"],
        ["memory", "info", "{}", "--json={}"],
        ["analyze", "{}"],
        ["certify", "--n", "{}"],
        ["certify", "--out", "x", "--model", "m", "--memory", "{}", "--data", "nowhere"],
    ],
)
@pytest.mark.parametrize("address", ["postgresql://me:S3CRET@host/db", "postgres:/me:S3CRET@host/db"])
def test_a_misplaced_address_is_not_repeated(arguments: list[str], address: str) -> None:
    done = CliRunner().invoke(app, [argument.format(address) for argument in arguments])
    assert done.exit_code == 2
    assert "S3CRET" not in done.output


def test_other_failures_repeat_no_password(server: Any, keeper: str) -> None:
    for address in (
        keeper.replace("/postgres", "/nowhere"),
        keeper.replace(f":{server.port}", ":1"),
        keeper.replace("127.0.0.1", "no.such.host.invalid"),
        f"{keeper}?sslmode=S3CRET",
        f"{keeper}?S3CRET=1",
        f"{keeper}?S3CRET",
        f"{keeper}?options=-cS3CRET%3D1",
        f"postgresql://127.0.0.1:{server.port}/postgres?user=keeper&password=S3CRET-wrong",
    ):
        with pytest.raises(InputError) as caught:
            Memory(address)
        assert "S3CRET" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__, "a traceback would show what the driver said"


def test_a_restarted_server_is_waited_for(server: Any, schema: str, certified: Certified) -> None:
    """Between two questions: idle connections are gone, and neither the reader nor the writer notices."""
    with Memory(f"{server.url()}?{schema}") as memory, Memory(f"{server.url()}?{schema}") as reader:
        memory.insert(point(0, 0), certified(1, 1.0))
        assert reader.answer(point(0, 0)) is not None
        server.stop()
        later = threading.Timer(1.0, server.start)
        later.start()
        try:
            got = memory.insert(point(5, 0), certified(2, 1.0))
        finally:
            later.join()
        assert (got.label, got.radius) == (2, 1.0)
        found = reader.answer(point(5, 0))
        assert found is not None
        assert found.label == 2
        assert memory.check() == []
        server.stop("fast")
        server.start()
        assert len(list(reader.regions())) == len(memory) == 2


def test_a_server_that_stays_away_is_one_sentence(
    server: Any, schema: str, certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETURN", 0.5)
    with Memory(f"{server.url()}?{schema}") as memory:
        memory.insert(point(0, 0), certified(1, 1.0))
        server.stop()
        try:
            for ask in (lambda: memory.answer(point(0, 0)), lambda: memory.insert(point(5, 0), certified(2, 1.0))):
                with pytest.raises(InputError, match=r"cannot be used.*check the address and the server"):
                    ask()
        finally:
            server.start()
        assert memory.insert(point(5, 0), certified(2, 1.0)).radius == 1.0


def test_another_memory_in_its_place_is_refused(server: Any, schema: str, certified: Certified) -> None:
    where = f"{server.url()}?{schema}"
    with Memory(where) as memory:
        memory.insert(point(0, 0), certified(1, 1.0))
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute("DROP TABLE smoothcert_memory, smoothcert_regions")
        with Memory(where) as other:
            other.insert(point(9, 0), certified(1, 1.0))
        server.stop()
        server.start()
        with pytest.raises(InputError, match="was replaced while it was open; open it again"):
            memory.answer(point(0, 0))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_is_lost_at_the_commit(
    server: Any, schema: str, certified: Certified, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The one moment in which nobody knows: the region is there, or not, and once either way."""
    where = f"{server.url()}?{schema}"
    with Memory(where) as memory, psycopg.connect(server.url(), autocommit=True) as killer:
        memory.insert(point(0, 0), certified(1, 1.0))
        store: Any = memory._store
        add, lost = store.add, []

        def lose() -> None:
            lost.append(killer.execute("SELECT pg_terminate_backend(%s)", (store._connection.info.backend_pid,)))
            time.sleep(0.1)

        def losing(region: Any) -> None:
            add(region)
            if not lost:
                if when == "after":
                    store._connection.execute("COMMIT")  # the server has it, and cannot say so any more
                lose()

        monkeypatch.setattr(store, "add", losing)
        got = memory.insert(point(5, 0), certified(2, 1.0))
        assert lost
        assert (got.label, got.radius, got.from_draws and got.from_draws.region) == (2, 1.0, 2)
        assert len(memory) == 2
        assert memory.check() == []


@pytest.mark.slow
def test_restarts_in_the_middle_of_insertions_lose_nothing(server: Any, schema: str) -> None:
    """Four processes insert, the server crashes again and again: what was acknowledged is there, nothing is half."""
    where = f"{server.url()}?{schema}"
    program = [sys.executable, str(Path(__file__).parent / "inserting.py"), where]
    workers = [subprocess.Popen([*program, str(seed), "60"], stdout=subprocess.PIPE, text=True) for seed in range(4)]
    outs = [worker.stdout for worker in workers if worker.stdout is not None]
    lines = [out.readline() for out in outs]
    for restart in range(RESTARTS):
        time.sleep(0.3)
        server.stop("immediate" if restart % 2 else "fast")
        server.start()
    assert any(worker.poll() is None for worker in workers), "all were done before the last restart"
    lines += [line for out in outs for line in out]
    assert [worker.wait(timeout=300) for worker in workers] == [0] * 4
    said = [json.loads(line) for line in lines]
    assert len(said) == 4 * 60
    with Memory(where) as memory:
        assert memory.check() == []
        regions = [region for region, _ in memory.regions()]
        assert [region.id for region in regions] == list(range(1, len(regions) + 1))
        for line in said:
            found = memory.answer(point(*line["x"]))
            assert line["label"] < 0 or (found is not None and found.label == line["label"])
            assert line["label"] < 0 or (found is not None and found.radius >= line["radius"])
