"""The one way to find a thing by its name: noises, procedures, objectives, backends, data sets, figures, ...

A file registers what it defines (`@NOISES.add`), so that a new thing is one new file. Code from outside the package
registers in the same way: a plug-in file, or an entry point of the group `smoothcert` (`core.plugins`).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from smoothcert.core.errors import InputError

T = TypeVar("T")
D = TypeVar("D")
_ADDED: list[tuple[Registry[Any], str]] = []  # everything that was registered, in order


class Registry(Mapping[str, T], Generic[T]):
    """Things of one kind by name, in the order in which they were registered.

    A name that is not there may come from an installed package, so looking it up loads these. Listing does not.

    Args:
        what: the kind, in the user's words, as in "there is no noise 'gausian'".
        listing: the command that lists them, where they are too many for a sentence.
    """

    def __init__(self, what: str, *, listing: str | None = None) -> None:
        self.what, self.listing = what, listing
        self._things: dict[str, T] = {}

    @property
    def one(self) -> str:
        """The kind with its article."""
        return f"{'an' if self.what[0] in 'aeiou' else 'a'} {self.what}"

    def add(self, thing: D, name: str | None = None) -> D:
        """Register a thing under its own `name`, or under the given one; returns it, so that it serves as a decorator.

        A name that is taken is refused: nothing is ever replaced behind anybody's back. The cell of a notebook that
        defines a thing may be run again.
        """
        called = getattr(thing, "name", None) if name is None else name
        if not isinstance(called, str) or not called:
            raise InputError(f"{self.one} needs a name to be registered under, got {called!r}")
        if called in self._things and not _is_rerun(self._things[called], thing):
            raise InputError(f"the {self.what} name {called!r} is taken; register under another name")
        self._things[called] = thing  # type: ignore[assignment]
        _ADDED.append((self, called))
        return thing

    def named(self, name: str) -> Callable[[D], D]:
        """A decorator that registers under `name`."""
        return lambda thing: self.add(thing, name)

    def find(self, name: object) -> T:
        """The thing of that name; an unknown name is refused in a sentence that lists the known ones."""
        if isinstance(name, str) and name in self:
            return self[name]
        raise InputError(
            f"there is no {self.what} {name!r}: {self._instead(str(name))}; "
            "one from outside the package is loaded with --plugin FILE"
        )

    def closest(self, name: str, most: int = 1) -> list[str]:
        """The names that were probably meant: the same letters and digits, a part of one name, or a small slip."""
        plain = {_letters(known): known for known in self._things}
        asked = _letters(name)
        if asked in plain:
            return [plain[asked]]
        around = [known for letters, known in plain.items() if asked and (asked in letters or letters in asked)]
        if len(around) == 1:
            return around
        return [plain[slip] for slip in get_close_matches(asked, plain, n=most)]

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            _load_entry_points()
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def __repr__(self) -> str:
        return f"Registry({self.what!r}: {', '.join(self._things)})"

    def _instead(self, name: str) -> str:
        meant = self.closest(name, most=1 if self.listing is None else 3)
        hint = f"did you mean {' or '.join(meant)}? " if meant else ""
        if self.listing is not None:
            return f"{hint}{'See' if hint else 'see'}: {self.listing}"
        return f"{hint}{'The' if hint else 'the'} names are {', '.join(sorted(self._things))}"


def register(kind: type[D]) -> type[D]:
    """Make a class known under its `name`, beside those of the package; a decorator.

    For a class derived from a base class that has a registry: `Noise`, `Procedure`, `Bound`, `SigmaSearch`,
    `Aggregation`, `Objective`, `Attack`, `Schedule`. All but aggregations are frozen dataclasses, because a record must
    be able to make them again; the decorator stands above `@dataclass(frozen=True)`.
    """
    registry = getattr(kind, "registry", None)
    if not isinstance(kind, type) or not isinstance(registry, Registry):
        raise InputError(
            f"smoothcert.register takes a class derived from Noise, Procedure, Bound or the like, got {kind!r}; "
            "architectures and data sets have a register of their own"
        )
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise InputError(f"the {registry.what} {kind.__name__} does not define {', '.join(missing)}")
    if dataclasses.is_dataclass(kind) and not _is_frozen(kind):
        raise InputError(
            f"the {registry.what} {kind.__name__} is no frozen dataclass; write @dataclass(frozen=True) between "
            "@smoothcert.register and the class"
        )
    return registry.add(kind)


def import_all(package: str, path: list[str]) -> None:
    """Import every module of a package, so that what its files register is found. Call it at the end of `__init__`."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """What is registered inside is there afterwards; where the block raises, nothing of it is."""
    before = len(_ADDED)
    try:
        yield
    except BaseException:
        while len(_ADDED) > before:
            registry, name = _ADDED.pop()
            registry._things.pop(name, None)
        raise


def _is_frozen(kind: type[Any]) -> bool:
    """Whether the class itself, not only a base class, is a frozen dataclass."""
    params = inspect.getattr_static(kind, "__dataclass_params__", None)
    return "__dataclass_params__" in vars(kind) and bool(params and params.frozen)


def _is_rerun(old: object, new: object) -> bool:
    """Whether both were written in the same place of a notebook or prompt."""
    places = [(getattr(one, "__module__", None), getattr(one, "__qualname__", None)) for one in (old, new)]
    return places[0] == places[1] and places[0][0] == "__main__"


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _load_entry_points() -> None:
    from smoothcert.core.plugins import load_entry_points  # noqa: PLC0415 (plug-ins register, so they come second)

    load_entry_points()
