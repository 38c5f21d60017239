"""What is printed: a terminal never sees the control characters of a name that came from a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from smoothcert.core.text import visible

WIDTH = 120  # columns where the output is no terminal


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print a text."""
    typer.echo(visible(text) + end, err=err, nl=False)


def warn(text: str) -> None:
    """Print a warning, beside the output."""
    say(f"warning: {text}", err=True)


def say_json(content: Any, indent: int | None = 2) -> None:
    """Print JSON for programs."""
    typer.echo(json.dumps(content, indent=indent))


def show(renderable: RenderableType, *, style: str | None = None) -> None:
    """Print a table or a text in colours: as wide as the terminal, or 120 columns into a file."""
    console = Console(width=None if Console().is_terminal else WIDTH, highlight=False, markup=False)
    if isinstance(renderable, str):
        console.print(visible(renderable), style=style)
        return
    parts = console.render(renderable)
    console.print(Segments(p if p.control else Segment(visible(p.text), p.style) for p in parts), end="")


@contextmanager
def flushed() -> Iterator[None]:
    """Around a whole command: letters that the terminal does not have are escaped, and a closed pipe is no error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            close_pipes()


def close_pipes() -> None:
    """Nobody reads any more: what is left in buffers goes nowhere, and Python does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError):  # a stream of a test has no file
            continue
