"""Modules that take long to import, imported when something of them is first used: help should come at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module; each attribute is looked up once and kept, so that later uses cost nothing more."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # asked by copy, pickle and inspect, not by code that wants the module
            raise AttributeError(attribute)
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value

    def __repr__(self) -> str:
        return f"LazyModule({self._name!r})"


special: Any = LazyModule("scipy.special")
stats: Any = LazyModule("scipy.stats")
