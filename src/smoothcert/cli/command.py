"""What every command has: plug-ins are loaded before anything else, and what cannot work is one sentence."""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from smoothcert.cli.output import say
from smoothcert.core.errors import InputError, sentence
from smoothcert.core.text import without_passwords

Plugins = Annotated[
    list[Path],
    typer.Option(
        "--plugin",
        help="Python file with things of your own (a noise, a procedure, a network, ...); may be repeated. It is run.",
    ),
]


class DiscreetGroup(TyperGroup):
    """Commands whose usage errors, which repeat what was typed, repeat no password of a memory's address."""

    def invoke(self, ctx: Any) -> Any:
        """As ever."""
        try:
            return super().invoke(ctx)
        except typer.TyperException as error:
            error.message = without_passwords(error.message)
            raise


def command(function: Callable[..., None]) -> Callable[..., None]:
    """The function as a command, with the option --plugin."""
    signature = inspect.signature(function, eval_str=True)
    plugins = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=[], annotation=Plugins)
    whole = signature.replace(parameters=[*signature.parameters.values(), plugins])

    @functools.wraps(function)
    def run(*args: Any, plugin: list[Path], **options: Any) -> None:
        with one_sentence():
            if plugin:
                load_plugins(plugin)
            function(*args, **options)

    run.__signature__ = whole  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in whole.parameters.items()}
    return run


def load_plugins(paths: list[Path]) -> None:
    """Run the files of --plugin, in order."""
    from smoothcert.core.plugins import load_plugin

    for path in paths:
        load_plugin(path)


@contextmanager
def one_sentence() -> Iterator[None]:
    """What cannot work is said in one sentence, with status 2; Ctrl-C leaves what is done and says how to go on.

    A reader that closed the pipe has seen enough: that ends silently (`__main__`).
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (InputError, OSError) as error:  # also a disk that is full, a folder that is not ours, a long name
        _say_once(f"smoothcert: {sentence(error)}")
        raise typer.Exit(2) from None
    except UnicodeError as error:
        _say_once(
            f"smoothcert: a name holds bytes that are not UTF-8 ({type(error).__name__}); rename the file or folder"
        )
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        _say_once("\nsmoothcert: stopped; run the same command again to go on from here")
        raise typer.Exit(130) from None


def _say_once(text: str) -> None:
    """Of the processes that torchrun starts on a machine, the first speaks."""
    if os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) == "0":
        say(text, err=True)
    else:
        time.sleep(1.0)  # torchrun ends all processes as soon as one ends: the first shall have spoken by then
