"""Certificates without a model, and a PostgreSQL of our own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from postgres import Server, postgres, server

from smoothcert.procedures import ABSTAIN, Certificate, Scope
from smoothcert.stats import Tally

__all__ = ["Server", "postgres", "server"]


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
