"""The command line: it parses, calls a workflow and renders what comes back. One file per command."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from smoothcert.cli import (
    analyze,
    attack,
    board,
    certify,
    compare,
    demo,
    ensemble,
    figure,
    memory,
    model,
    predict,
    recipes,
    report,
    serve,
    study,
    train,
    verify,
    zoo,
)
from smoothcert.cli.choices import ListingCommand, ListingGroup
from smoothcert.cli.command import DiscreetGroup, command
from smoothcert.cli.examples import examples
from smoothcert.cli.output import say

HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="smoothcert",
    cls=DiscreetGroup,
    help="Classifiers whose answers come with a proof, by randomized smoothing.",
    no_args_is_help=True,
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
    verify.verify, attack.attack, study.study, board.board, zoo.zoo, demo.demo,
):  # fmt: skip
    app.command(cls=ListingCommand, epilog=examples(_command.__name__))(command(_command))

_ensemble = typer.Typer(help="Rank members, find weights, plan a size, write an ensemble file.", no_args_is_help=True)
for _part in (ensemble.make, ensemble.rank, ensemble.weights, ensemble.plan):
    _ensemble.command(cls=ListingCommand, epilog=examples(f"ensemble {_part.__name__}"))(command(_part))
app.add_typer(_ensemble, name="ensemble")

_figure = typer.Typer(help="Figures of the theory, of noise and of trainings.", no_args_is_help=True)
for _shown in (figure.members, figure.radius, figure.stages, figure.noise, figure.progress):
    _figure.command(cls=ListingCommand, epilog=examples(f"figure {_shown.__name__}"))(command(_shown))
app.add_typer(_figure, name="figure")

_memory = typer.Typer(help="Look into a memory of certified regions.", no_args_is_help=True)
for _look in (memory.info, memory.check, memory.export):
    _memory.command(cls=ListingCommand, epilog=examples(f"memory {_look.__name__}"))(command(_look))
app.add_typer(_memory, name="memory")

_serve = typer.Typer(cls=ListingGroup, invoke_without_command=True, help=serve.serve.__doc__, epilog=examples("serve"))
_serve.callback()(command(serve.serve))
_serve.command(cls=ListingCommand, epilog=examples("serve reveal"))(command(serve.reveal))
app.add_typer(_serve, name="serve")


_model = typer.Typer(help="Models of any format: what one is, one file of it, ONNX of it.", no_args_is_help=True)
for _called, _does in (("import", model.import_), ("info", model.info), ("export", model.export)):
    _model.command(_called, cls=ListingCommand, epilog=examples(f"model {_called}"))(command(_does))
app.add_typer(_model, name="model")


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


def _show_help(arguments: list[str]) -> bool:
    """Print what `COMMAND [COMMAND] --help` asks for, and nothing else, without parsing: that would load pydantic."""
    *names, last = arguments or [""]
    if last not in HELP["help_option_names"]:
        return False
    found: Any = typer.main.get_command(app)
    context = found.context_class(found, info_name="smoothcert", **HELP)
    for name in names:
        found = getattr(found, "commands", {}).get(name)
        if found is None:
            return False
        context = found.context_class(found, info_name=name, parent=context)
    print(found.get_help(context))
    return True


def main() -> None:
    """The entry point of `smoothcert`."""
    arguments = repeat_options(sys.argv[1:])
    if not _show_help(arguments):
        app(args=arguments)
