"""All procedures by name, and the way back from how one stands in a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.procedures.budgeted import Budgeted
from smoothcert.procedures.conversation import Procedure
from smoothcert.procedures.fixed import Fixed
from smoothcert.procedures.sequential import Sequential
from smoothcert.procedures.staged import Staged
from smoothcert.stats import BOUNDS

PROCEDURES: dict[str, type[Procedure]] = {
    procedure.name: procedure for procedure in (Fixed, Staged, Sequential, Budgeted)
}


def described_procedure(description: Mapping[str, Any]) -> Procedure:
    """The procedure that describes itself like this, to the last option; anything else is refused."""
    try:
        options = {key: value for key, value in description.items() if key != "name"}
        if "bound" in options:
            bound = {key: value for key, value in options["bound"].items() if key != "name"}
            options["bound"] = BOUNDS[options["bound"]["name"]](**bound)
        procedure = PROCEDURES[description["name"]](**options)
        same = procedure.describe() == description
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError, ZeroDivisionError, RecursionError):
        same = False
    if not same:
        raise InputError(f"{description!r} describes no procedure that can be: it was damaged")
    return procedure
