"""Things from outside the package: a Python file (`--plugin my_things.py`), or installed packages by entry point.

A plug-in registers what it defines while it is imported, and is then used like anything that comes with the package.
It is code, and runs with all rights of whoever loads it. What a plug-in is made of, and how it is registered:

| kind | from | how |
|---|---|---|
| noise | `smoothcert.noise`: Noise | `@smoothcert.register` |
| procedure | `smoothcert.procedures`: Procedure, FixedDraws, Ask, Geometry, Certificate, ... | `@smoothcert.register` |
| bound | `smoothcert.stats`: Bound, Tally | `@smoothcert.register` |
| search for sigma | `smoothcert.engine.sigma`: SigmaSearch | `@smoothcert.register` |
| aggregation | `smoothcert.models.ensembles`: Ensemble, Aggregation, Member, ask, ask_all | `@smoothcert.register` |
| objective, attack | `smoothcert.training.objectives`: Objective, Attack | `@smoothcert.register` |
| schedule | `smoothcert.training`: Schedule | `@smoothcert.register` |
| architecture | torch.nn | `@smoothcert.architectures.register("name")` |
| data set | `smoothcert.datasets`: Dataset | `@smoothcert.datasets.register("name")` |
| figure | `smoothcert.present.figures`: FIGURES, canvas, label, ... | `@FIGURES.named("name")` |
| recipe | `smoothcert.training.recipes`: RECIPES, Recipe | `RECIPES.add(recipe)` |
| model format | `smoothcert.models`: FORMATS, Format, Foreign, Checkpoint, Signature | `FORMATS.add(format, "name")` |
| backend | `smoothcert.engine.backends`: backend, Job, Prepared | `@backend("name")` |

An entry point names a module that does so; the package's metadata have it in the group `smoothcert`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from smoothcert.core.errors import InputError
from smoothcert.core.registry import all_or_nothing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "smoothcert"
_LOADED: dict[str, Plugin] = {}  # by digest
_ENTERED: set[EntryPoint] = set()


@dataclass(frozen=True)
class Plugin:
    """A file that was loaded: its name without folders, and the SHA-256 of its content. Where it lies is not told."""

    file: str
    digest: str
    path: Path = field(default=Path(), compare=False, repr=False, metadata={"described": False})


def load_plugin(path: str | Path) -> Plugin:
    """Run a Python file, once per process and content; what it registers is there afterwards, or nothing of it.

    One file: what it imports must be installed. Its classes live in a module whose name follows from the content, so
    that whoever loads the same file has the same classes.
    """
    path = Path(path).absolute()
    if path.suffix != ".py":
        raise InputError(f"the plug-in {path} is not a Python file; give one that ends in .py")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the plug-in {path} cannot be read: {error.strerror}; give a Python file") from None
    plugin = Plugin(path.name, hashlib.sha256(content).hexdigest(), path)
    if plugin.digest not in _LOADED:
        if any(loaded.path == path for loaded in _LOADED.values()):
            raise InputError(f"the plug-in {path} was changed after it was loaded; start Python again to use it")
        _execute(plugin, content)
        _LOADED[plugin.digest] = plugin
    return _LOADED[plugin.digest]


def loaded_plugins() -> tuple[Plugin, ...]:
    """Every file that was loaded so far, in order; copies of one count once."""
    return tuple(_LOADED.values())


def load_again(plugins: Iterable[Plugin]) -> None:
    """In another process: load the files of `loaded_plugins()`; one that is not what it was is refused."""
    for plugin in plugins:
        if load_plugin(plugin.path).digest != plugin.digest:
            raise InputError(f"the plug-in {plugin.path} was changed while it was in use; run the command again")


def plugin_contents() -> tuple[tuple[Plugin, bytes], ...]:
    """Every file that was loaded so far with what is in it, for a machine that does not have the file."""
    load_again(loaded_plugins())  # one that was changed meanwhile is refused
    return tuple((plugin, plugin.path.read_bytes()) for plugin in loaded_plugins())


def load_contents(contents: Iterable[tuple[Plugin, bytes]]) -> None:
    """On another machine: what `plugin_contents()` gave; each once."""
    for plugin, content in contents:
        if plugin.digest not in _LOADED:
            if hashlib.sha256(content).hexdigest() != plugin.digest:
                raise InputError(f"the plug-in {plugin.file} was changed while it was in use; run the command again")
            _execute(plugin, content)
            _LOADED[plugin.digest] = plugin


def load_entry_points() -> None:
    """Load what installed packages offer under the entry-point group `smoothcert`; each once."""
    from importlib.metadata import entry_points  # noqa: PLC0415 (help of a command comes sooner without it)

    for point in entry_points(group=GROUP):
        if point in _ENTERED:
            continue
        _ENTERED.add(point)  # before it is loaded: it may look something up itself
        try:
            with all_or_nothing():
                point.load()
        except Exception as error:
            _ENTERED.discard(point)
            raise InputError(
                f"the plug-in {point.name!r} of an installed package cannot be loaded ({_about(error)}); "
                "update or uninstall that package"
            ) from error


def _execute(plugin: Plugin, content: bytes) -> None:
    """Run what was read: importing the file would read it again, or take a compiled copy that is older."""
    module = ModuleType(f"smoothcert_plugin_{plugin.digest[:16]}")
    module.__file__ = str(plugin.path)
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up by name
    try:
        with all_or_nothing():
            exec(compile(content, plugin.path, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise InputError(f"the plug-in {plugin.path} cannot be loaded ({_about(error)})") from error


def _about(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
