"""The command line. One file per command, thin; errors are one sentence and exit status 2."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import typer

from smoothcert.cli import analyze, certify, demo, predict
from smoothcert.errors import InputError

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
        except InputError as error:
            print(f"smoothcert: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            print("\nsmoothcert: stopped; run the same command again to go on from here", file=sys.stderr)
            raise typer.Exit(130) from None

    return run


for _command in (certify.certify, predict.predict, analyze.analyze, demo.demo):
    app.command()(polite(_command))


def main() -> None:
    """The entry point of `smoothcert`."""
    app()
