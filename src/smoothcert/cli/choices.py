"""Help that names what is registered, looked up when help is shown: starting a command should not load everything."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperCommand

REGISTRIES = {
    "{figures}": ("smoothcert.present.figures", "FIGURES"),
    "{noises}": ("smoothcert.noise", "NOISES"),
    "{aggregations}": ("smoothcert.models.ensembles", "AGGREGATIONS"),
    "{datasets}": ("smoothcert.datasets", "READERS"),
}


class ListingCommand(TyperCommand):
    """A command in whose help `{figures}`, `{noises}`, ... stand for the names that are registered."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, with names filled in."""
        for parameter in self.params:
            parameter.help = filled(getattr(parameter, "help", None))  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def filled(text: str | None) -> str | None:
    """A help text with the registered names in the places of `{figures}`, `{noises}`, ..."""
    for place, (module, registry) in REGISTRIES.items():
        if text and place in text:
            text = text.replace(place, ", ".join(getattr(import_module(module), registry)))
    return text
