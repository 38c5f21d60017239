"""A file, an address, or a refusal that repeats nothing."""

from pathlib import Path

import pytest

from smoothcert.core.errors import InputError
from smoothcert.memory import Memory
from smoothcert.memory.address import parse_address


@pytest.mark.parametrize(
    ("text", "hosts", "secrets"),
    [
        ("postgresql://host/db", ["host"], set()),
        ("postgres://user@host:5432/db", ["host"], set()),
        ("postgresql://user:pass@host/db", ["host"], {"pass"}),
        ("postgresql://user:p%40ss@host/db?sslmode=require", ["host"], {"p%40ss", "p@ss"}),
        ("postgresql:///db?host=/run&user=me&password=a%26b", [], {"a&b"}),
        ("postgresql://a:1,b:2/db", ["a", "b"], set()),
        ("postgresql://[::1]:5432/db", ["::1"], set()),
        ("postgresql://host/db?options=-csearch_path%3Dname", ["host"], set()),
        ("postgresql://user:with:colon#and+more@host", ["host"], {"with:colon#and+more"}),
        ("postgresql://", [], set()),
    ],
)
def test_addresses(text: str, hosts: list[str], secrets: set[str]) -> None:
    found = parse_address(text)
    assert found is not None
    assert (found.url, found.hosts, set(found.secrets)) == (text, hosts, secrets)
    assert not any(secret in repr(found) for secret in secrets)


@pytest.mark.parametrize(
    "where",
    [
        "m.sqlite",
        "runs/a/m.sqlite",
        "/data/user:name@host/m.sqlite",
        "./postgresql",
        "./host=1 password=2",
        "with space.sqlite",
        "a=b/m.sqlite",
        Path("memory of me@home.sqlite"),
        "C",
    ],
)
def test_paths(where: str | Path) -> None:
    assert parse_address(where) is None


NO_ADDRESS = [
    "host=localhost user=me password=S3CRET dbname=x",
    "password = 'S3CRET' host=h",
    "dbname=x\tpassword=S3CRET",
    "postgres:/me:S3CRET@host/db",
    "postgres:me:S3CRET@host/db",
    "postgresql:S3CRET",
    " postgresql://me:S3CRET@host/db",
    "postgresql://me:S3CRET@host/db ",
    "PostgreSQL://me:S3CRET@host/db",
    "POSTGRES://me:S3CRET@host/db",
    "postgresql+psycopg://me:S3CRET@host/db",
    "jdbc:postgresql://me:S3CRET@host/db",
    "mysql://me:S3CRET@host/db",
    "me:S3CRET@host/db",
    "me:S3CRET@host:5432/db",
    "postgresql://me:with/S3CRET@host/db",
    "postgresql://me:12/S3CRET@host/db",
    "postgresql://me:S3CRET@with@host/db",
    "postgresql://me:with@S3CRET@host/db",
    "postgresql://me:12?S3CRET@host/db",
    "postgresql://me:with S3CRET@host/db",
    "postgresql://me:S3CRET%@host/db",
    "postgresql://me:S3CRET%zz@host/db",
    "postgresql://me:S3CRET%00@host/db",
    "postgresql://me:S3CRET/db",
    "postgresql://me@host:S3CRET/db",
    "postgresql://host/db/S3CRET",
    Path("postgresql://me:S3CRET@host/db"),
    Path("postgres:/me:S3CRET@host/db"),
    "postgresql://me:S3CRET@host\0/db",
]


@pytest.mark.parametrize("where", NO_ADDRESS, ids=repr)
def test_what_is_neither_is_refused_and_not_repeated(
    where: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        Memory(where)
    assert "S3CRET" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [], "no file has it in its name"
