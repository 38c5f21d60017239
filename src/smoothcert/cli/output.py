"""What is printed: a terminal never sees the control characters of a name that came from a file."""

from __future__ import annotations

import json
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
