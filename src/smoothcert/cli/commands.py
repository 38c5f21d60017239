"""The commands by name and where each is: only the file of the one that was asked for is imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from smoothcert.cli.choices import ListingCommand, ListingGroup
from smoothcert.cli.command import DiscreetGroup, command
from smoothcert.cli.examples import examples
from smoothcert.cli.output import say

HELP = {"help_option_names": ["-h", "--help"]}
COMMANDS = (
    "train", "recipes", "certify", "predict", "analyze", "compare", "report", "verify", "attack", "study", "board",
    "zoo", "demo",
)  # fmt: skip
"""Each is the function of that name in the file of that name."""
GROUPS = {
    "ensemble": ("Rank members, find weights, plan a size, write an ensemble file.", "make", "rank", "weights", "plan"),
    "figure": (
        "Figures of the theory, of noise and of trainings.", "members", "radius", "stages", "noise", "progress",
    ),
    "memory": ("Look into a memory of certified regions.", "info", "check", "export"),
    "serve": ("", "reveal"),
    "model": ("Models of any format: what one is, one file of it, ONNX of it.", "import", "info", "export"),
}  # fmt: skip
"""Commands with commands below them: what they are for (empty: it is a command itself), and their names."""


def command_line(first: str | None = None) -> typer.Typer:
    """The command line; where `first` is a command, with that one alone."""
    app = typer.Typer(
        name="smoothcert",
        cls=DiscreetGroup,
        help="Classifiers whose answers come with a proof, by randomized smoothing.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )
    app.callback()(_main)
    known = first in COMMANDS or first in GROUPS
    for name in COMMANDS:
        if name == first or not known:
            _add(app, name, _function(name, name))
    for name, (about, *parts) in GROUPS.items():
        if name == first or not known:
            app.add_typer(_group(name, about, parts), name=name)
    return app


def _group(name: str, about: str, parts: list[str]) -> typer.Typer:
    if not about:
        itself = _function(name, name)
        group = typer.Typer(cls=ListingGroup, invoke_without_command=True, help=itself.__doc__, epilog=examples(name))
        group.callback()(command(itself))
    else:
        group = typer.Typer(help=about, no_args_is_help=True)
    for part in parts:
        _add(group, part, _function(name, part), f"{name} {part}")
    return group


def _add(to: typer.Typer, name: str, function: Callable[..., None], words: str | None = None) -> None:
    to.command(name, cls=ListingCommand, epilog=examples(words or name))(command(function))


def _function(module: str, name: str) -> Callable[..., None]:
    found: Callable[..., None] = getattr(
        import_module(f"smoothcert.cli.{module}"), {"import": "import_"}.get(name, name)
    )
    return found


def _version(wanted: bool) -> None:
    if wanted:
        from smoothcert import __version__

        say(f"smoothcert {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
