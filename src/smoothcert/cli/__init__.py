"""The command line: it parses, calls a workflow and renders what comes back. One file per command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from smoothcert.cli import (
    analyze,
    attack,
    certify,
    compare,
    demo,
    ensemble,
    memory,
    predict,
    recipes,
    report,
    serve,
    train,
    verify,
)
from smoothcert.cli.choices import ListingCommand
from smoothcert.cli.command import DiscreetGroup, command
from smoothcert.cli.output import say

HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="smoothcert",
    cls=DiscreetGroup,
    help="Classifiers whose answers come with a proof, by randomized smoothing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


def _version(wanted: bool) -> None:
    if wanted:
        from smoothcert import __version__

        say(f"smoothcert {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


for _command in (
    train.train, recipes.recipes, certify.certify, predict.predict, analyze.analyze, compare.compare, report.report,
    verify.verify, attack.attack, demo.demo,
):  # fmt: skip
    app.command(cls=ListingCommand)(command(_command))

_ensemble = typer.Typer(help="Rank members, find weights, plan a size, write an ensemble file.", no_args_is_help=True)
for _part in (ensemble.make, ensemble.rank, ensemble.weights, ensemble.plan):
    _ensemble.command(cls=ListingCommand)(command(_part))
app.add_typer(_ensemble, name="ensemble")

_memory = typer.Typer(help="Look into a memory of certified regions.", no_args_is_help=True)
for _look in (memory.info, memory.check, memory.export):
    _memory.command(cls=ListingCommand)(command(_look))
app.add_typer(_memory, name="memory")

_serve = typer.Typer(invoke_without_command=True, help=serve.serve.__doc__)
_serve.callback()(command(serve.serve))
_serve.command(cls=ListingCommand)(command(serve.reveal))
app.add_typer(_serve, name="serve")


def repeat_radius_option(arguments: list[str]) -> list[str]:
    """`--radius 0.25 0.5` as `--radius 0.25 --radius 0.5`, which is how options repeat."""
    out: list[str] = []
    for position, argument in enumerate(arguments):
        listed = bool(out) and position > 1 and _is_number(argument) and _is_number(arguments[position - 1])
        out += ["--radius", argument] if listed and out[-2] == "--radius" else [argument]
    return out


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def main() -> None:
    """The entry point of `smoothcert`."""
    app(args=repeat_radius_option(sys.argv[1:]))
