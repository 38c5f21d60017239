"""Help that names what is registered, looked up when help is shown: starting a command should not load everything."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

import smoothcert

REGISTRIES = {
    "{figures}": ("smoothcert.present.figures", "FIGURES"),
    "{member_figures}": ("smoothcert.present.figures", "MEMBER_FIGURES"),
    "{noises}": ("smoothcert.noise", "NOISES"),
    "{aggregations}": ("smoothcert.models.ensembles", "AGGREGATIONS"),
    "{datasets}": ("smoothcert.datasets", "READERS"),
}
NAMED_CLASS = r'(?:@[^\n]+\n)*class .*?^    name: ClassVar\[str\] = "([^"]+)"'


class _Listing:
    """Fills names into the help of what it is mixed into."""

    params: list[Any]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, with names filled in."""
        for parameter in self.params:
            parameter.help = filled(getattr(parameter, "help", None))
        super().format_help(ctx, formatter)  # type: ignore[misc]


class ListingCommand(_Listing, TyperCommand):
    """A command in whose help `{figures}`, `{noises}`, ... stand for the names that are registered."""


class ListingGroup(_Listing, TyperGroup):
    """The same of a command that has commands below it."""


def filled(text: str | None) -> str | None:
    """A help text with the registered names in the places of `{figures}`, `{noises}`, ..."""
    for place, (module, registry) in REGISTRIES.items():
        if text and place in text:
            text = text.replace(place, ", ".join(_names(module, registry)))
    return text


def _names(module: str, registry: str) -> list[str]:
    """What is registered, sorted. Where files say it, they are read and not run: that would wait for torch."""
    folder = Path(smoothcert.__file__).parent.joinpath(*module.split(".")[1:])
    if module not in sys.modules and folder.is_dir():
        sources = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
        decorated = re.findall(rf'^@(?:{registry}\.named|register)\("(.+)"\)$', sources, re.M)
        if found := decorated + re.findall(rf"^@{registry}\.add\n{NAMED_CLASS}", sources, re.M | re.S):
            return sorted(found)
    return sorted(getattr(import_module(module), registry))
