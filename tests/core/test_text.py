"""What comes from outside is shown on one line, without escape sequences and without passwords."""

import os

import pytest

from smoothcert.core.errors import InputError, sentence
from smoothcert.core.text import visible, without_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Größe 数", "plain Größe 数"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("two\nlines\r", "two\\nlines\\r"),
        (os.fsdecode(b"caf\xe9"), "caf\\udce9"),
        ("\x9b31m\u202ereversed", "\\x9b31m\\u202ereversed"),
    ],
)
def test_names_cannot_steer_a_terminal(text: str, shown: str) -> None:
    assert visible(text, lines=False) == shown
    assert sentence(InputError(f"{text} is wrong")) == f"{shown} is wrong"
    assert sentence(FileNotFoundError(2, "No such file", text)) == f"No such file: {shown}"
    shown.encode()


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:S3CRET@host/db",
        "postgresql://user:S3CRET@host:5432/db?sslmode=require",
        "postgresql://user:pa/S3CRET@host/db",
        "postgresql://user:pa@S3CRET@host/db",
        "postgresql://user:a?S3CRET#b@host/db",
        "postgresql://:S3CRET@/db",
        "postgres:/user:S3CRET@host/db",
        "PostgreSQL+psycopg://user:S3CRET@host/db",
        "postgresql://host/db?user=me&password=S3CRET&sslmode=require",
        "postgresql://host/db?password%3DS3CRET",
        "host=localhost password=S3CRET dbname=x",
        "host=localhost password = 'S3CRET with spaces' dbname=x",
        "host=localhost PASSWORD='a\\'S3CRET' dbname=x",
        "user:S3CRET@host/db",
        "smoothcert certify --memory postgresql://user:S3CRET@host/db --out runs/a",
        "smoothcert certify --memory=postgresql://user:S3CRET@host/db --out runs/a",
    ],
)
def test_a_password_is_not_repeated(text: str) -> None:
    shown = without_passwords(text)
    assert "S3CRET" not in shown
    assert "***" in shown
    assert shown.endswith(text[-2:]) or "password" in text


@pytest.mark.parametrize("text", ["runs/a", "--out a@b", "C:/x y@z", "smoothcert certify --sigma 0.5 --data x:test"])
def test_what_holds_none_stays(text: str) -> None:
    assert without_passwords(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("runs/a ünïcode ℓ₂", "runs/a ünïcode ℓ₂"),
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("\x9b2J\x07\x7f\r", "\\x9b2J\\x07\\x7f\\r"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("not utf-8: \udcff", "not utf-8: \\udcff"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert shown.encode("utf-8")
