"""The command line: it parses, calls a workflow and renders what comes back. One file per command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from smoothcert.cli import (
    analyze,
    attack,
    board,
    certify,
    compare,
    demo,
    ensemble,
    memory,
    model,
    predict,
    recipes,
    report,
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
    verify.verify, attack.attack, board.board, demo.demo,
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


_model = typer.Typer(help="Models of any format: what one is, one file of it, ONNX of it.", no_args_is_help=True)
for _called, _does in (("import", model.import_), ("info", model.info), ("export", model.export)):
    _model.command(_called, cls=ListingCommand)(command(_does))
app.add_typer(_model, name="model")


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
