"""The command line. One file per command, thin; errors are one sentence and exit status 2."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

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
    train,
    verify,
)
from smoothcert.cli.choices import ListingCommand
from smoothcert.core.errors import InputError, sentence

app = typer.Typer(
    name="smoothcert",
    help="Classifiers whose answers come with a proof, by randomized smoothing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def polite(command: Callable[..., None]) -> Callable[..., None]:
    """What cannot work is said in one sentence, with status 2; Ctrl-C leaves what is done and says how to go on."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (InputError, OSError) as error:  # also a disk that is full, a folder that is not ours, a long name
            _say(f"smoothcert: {sentence(error)}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            _say("\nsmoothcert: stopped; run the same command again to go on from here")
            raise typer.Exit(130) from None

    return run


def _say(text: str) -> None:
    """Once: of the processes that torchrun starts on a machine, the first speaks."""
    if os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) == "0":
        print(text, file=sys.stderr)
    else:
        time.sleep(1.0)  # torchrun ends all processes as soon as one ends: the first shall have spoken by then


for _command in (
    train.train,
    recipes.recipes,
    certify.certify,
    predict.predict,
    analyze.analyze,
    compare.compare,
    report.report,
    verify.verify,
    attack.attack,
    demo.demo,
):
    app.command(cls=ListingCommand)(polite(_command))

_ensemble = typer.Typer(help="Rank members, find weights, plan a size, write an ensemble file.", no_args_is_help=True)
for _part in (ensemble.make, ensemble.rank, ensemble.weights, ensemble.plan):
    _ensemble.command()(polite(_part))
app.add_typer(_ensemble, name="ensemble")

_memory = typer.Typer(help="Look into a memory of certified regions.", no_args_is_help=True)
for _look in (memory.info, memory.check, memory.export):
    _memory.command()(polite(_look))
app.add_typer(_memory, name="memory")


def spread(arguments: list[str]) -> list[str]:
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
    app(args=spread(sys.argv[1:]))
