"""Help that comes at once: it is printed without parsing, and without what typer's help loads but does not use here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import typer

from smoothcert.cli.commands import HELP

UNUSED = ("rich.markdown", "rich.traceback")
"""What typer's help imports for Markdown and for tracebacks, of which there are none here: a quarter of the time."""


def show_help(app: typer.Typer, arguments: list[str]) -> bool:
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
    with _loaded_when_used():
        print(found.get_help(context))
    return True


@contextmanager
def _loaded_when_used() -> Iterator[None]:
    """Inside, a class imported from one of `UNUSED` stands for the real one, and loads it once it is called."""
    placed = {name: _placeholder(name) for name in UNUSED if name not in sys.modules}
    sys.modules.update(placed)
    try:
        yield
    finally:
        for name, module in placed.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _placeholder(name: str) -> ModuleType:
    def missing(kind: str) -> type:
        if kind.startswith("__"):
            raise AttributeError(kind)

        def load(_: type, *args: Any, **options: Any) -> Any:
            sys.modules.pop(name, None)
            return getattr(import_module(name), kind)(*args, **options)

        return type(kind, (), {"__new__": load})

    module = ModuleType(name)
    module.__getattr__ = missing  # type: ignore[method-assign]
    return module
