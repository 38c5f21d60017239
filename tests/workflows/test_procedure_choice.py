"""A procedure by its name: every option goes where it belongs, or is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from smoothcert.core.errors import InputError
from smoothcert.procedures import Budgeted, Fixed, Procedure, Sequential, Staged
from smoothcert.stats import Hoeffding
from smoothcert.workflows.procedure_choice import ProcedureChoice


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, Fixed(n0=100, n=100_000, alpha=0.001)),
        ({"n": 500, "n0": 50, "runner_up": True}, Fixed(n0=50, n=500, runner_up=True)),
        ({"bound": "hoeffding", "inverse_temperature": 2.0}, Fixed(bound=Hoeffding(2.0))),
        ({"name": "sequential", "radius": [0.5], "beta": 0.01}, Sequential(radius=[0.5], beta=0.01)),
        ({"name": "staged", "radius": [0.5], "n": 1000}, Staged.matching(radius=0.5, n=1000)),
        ({"name": "staged", "radius": [0.5]}, Staged.matching(radius=0.5, n=100_000)),
        ({"name": "staged", "radius": [0.5], "stages": "10, 200"}, Staged(radius=0.5, stages=(10, 200))),
        ({"name": "budgeted", "n": 1000, "price": 0.1}, Budgeted(most=1000, price=0.1)),
        ({"name": "budgeted", "more": {"pilot": 200}}, Budgeted(pilot=200)),
    ],
)
def test_what_is_chosen(options: Mapping[str, Any], wanted: Procedure) -> None:
    assert ProcedureChoice(**options).resolve() == wanted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"more": {"looks": 3}}, "--looks does not go with --procedure fixed"),
        ({"name": "budgeted", "inverse_temperature": 0.0}, "--inverse-temperature does not go with --procedure budg"),
        ({"name": "staged"}, r"give --radius once, got \[\]"),
        ({"name": "sequential", "price": 0.0}, "--price does not go"),
    ],
)
def test_what_does_not_go_is_refused(options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ProcedureChoice(**options).resolve()
