"""Help that names what is registered, looked up when help is shown: starting a command should not load everything."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup

REGISTRIES = {
    "{figures}": ("smoothcert.present.figures", "FIGURES"),
    "{noises}": ("smoothcert.noise", "NOISES"),
    "{aggregations}": ("smoothcert.models.ensembles", "AGGREGATIONS"),
    "{datasets}": ("smoothcert.datasets", "READERS"),
}


class _Listing:
    """Fills names into the help of what it is mixed into."""

    params: list[Any]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, with names filled in."""
        for parameter in self.params:
            parameter.help = _filled(getattr(parameter, "help", None))
        super().format_help(ctx, formatter)  # type: ignore[misc]


class ListingCommand(_Listing, TyperCommand):
    """A command in whose help `{figures}`, `{noises}`, ... stand for the names that are registered."""


class ListingGroup(_Listing, TyperGroup):
    """The same of a command that has commands below it."""


def _filled(text: str | None) -> str | None:
    for place, (module, registry) in REGISTRIES.items():
        if text and place in text:
            text = text.replace(place, ", ".join(getattr(import_module(module), registry)))
    return text
