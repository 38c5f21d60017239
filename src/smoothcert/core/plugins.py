"""Things from outside the package: a Python file (`--plugin my_things.py`), or installed packages by entry point.

A plug-in registers what it defines while it is imported, and is then used like anything that comes with the package.
It is code, and runs with all rights of whoever loads it.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from smoothcert.core.errors import InputError

GROUP = "smoothcert"
_LOADED: dict[str, Plugin] = {}


@dataclass(frozen=True)
class Plugin:
    """A file that was loaded: its name without folders, and the SHA-256 of its content."""

    file: str
    digest: str


def load_plugin(path: str | Path) -> Plugin:
    """Run a Python file, once per process and content; what it registers is there afterwards."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the plug-in {path} cannot be read: {error.strerror}; give a Python file") from None
    plugin = Plugin(path.name, hashlib.sha256(content).hexdigest())
    if plugin.digest in _LOADED:
        return _LOADED[plugin.digest]
    name = f"smoothcert_plugin_{plugin.digest[:16]}"
    spec = spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError(f"the plug-in {path} is not a Python file; give one that ends in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"the plug-in {path} cannot be loaded ({type(error).__name__}: {error})") from error
    _LOADED[plugin.digest] = plugin
    return plugin


def loaded_plugins() -> tuple[Plugin, ...]:
    """Every file that was loaded so far, in order."""
    return tuple(_LOADED.values())


def plugin_files() -> tuple[Path, ...]:
    """Where those files are, for processes that are to load them, too."""
    modules = (sys.modules[f"smoothcert_plugin_{digest[:16]}"] for digest in _LOADED)
    return tuple(Path(module.__file__) for module in modules if module.__file__ is not None)


@cache
def load_entry_points() -> None:
    """Load what installed packages offer under the entry-point group `smoothcert`; once."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            raise InputError(
                f"the plug-in {point.name!r} of an installed package cannot be loaded ({type(error).__name__}: "
                f"{error}); update or uninstall that package"
            ) from error
