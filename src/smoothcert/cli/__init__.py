"""The command line: it parses, calls a workflow and renders what comes back. One file per command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from smoothcert.cli.commands import command_line
from smoothcert.cli.help import show_help

if TYPE_CHECKING:
    app: typer.Typer


def __getattr__(name: str) -> Any:
    """`app`, the whole command line, is made when first used: that imports the file of every command."""
    if name != "app":
        raise AttributeError(f"module 'smoothcert.cli' has no attribute {name!r}")
    globals()["app"] = command_line()
    return globals()["app"]


def repeat_options(arguments: list[str]) -> list[str]:
    """`--radius 0.25 0.5` as `--radius 0.25 --radius 0.5`, which is how options repeat; `--input a.png b.png` too."""
    out: list[str] = []
    listed = ""
    for argument in arguments:
        if argument in LISTED:
            out.append(argument)
            listed = argument
            continue
        goes_on = bool(listed) and LISTED[listed](argument)
        out += [listed, argument] if goes_on and out[-1] != listed else [argument]
        listed = listed if goes_on else ""
    return out


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_value(text: str) -> bool:
    return not text.startswith("-")


LISTED = {"--radius": _is_number, "--input": _is_value}
"""Options that take several values in a row, and what can be one."""


def main() -> None:
    """The entry point of `smoothcert`."""
    arguments = repeat_options(sys.argv[1:])
    asked = command_line(arguments[0] if arguments else None)
    if not show_help(asked, arguments):
        asked(args=arguments)
