"""The one way to find a thing by its name: noises, procedures, objectives, backends, data sets, figures, ...

A file registers what it defines (`@NOISES.add`), so that a new thing is one new file. Code from outside the package
registers in the same way: a plug-in file, or an entry point of the group `smoothcert` (`core.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

from smoothcert.core.errors import InputError

T = TypeVar("T")
D = TypeVar("D")


class Registry(Mapping[str, T], Generic[T]):
    """Things of one kind by name, in the order in which they were registered.

    Args:
        what: the kind, in the user's words, as in "there is no noise 'gausian'".
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._things: dict[str, T] = {}

    def add(self, thing: D, name: str | None = None) -> D:
        """Register a thing under its own `name`, or under the given one; returns it, so that it serves as a decorator.

        A name that is taken is refused: nothing is ever replaced behind anybody's back.
        """
        called = getattr(thing, "name", None) if name is None else name
        if not isinstance(called, str) or not called:
            raise InputError(f"a {self.what} needs a name to be registered under, got {called!r}")
        if called in self._things:
            raise InputError(f"the {self.what} name {called!r} is taken; register under another name")
        self._things[called] = thing  # type: ignore[assignment]
        return thing

    def named(self, name: str) -> Callable[[D], D]:
        """A decorator that registers under `name`."""
        return lambda thing: self.add(thing, name)

    def find(self, name: object) -> T:
        """The thing of that name; an unknown name is refused in a sentence that lists the known ones."""
        if isinstance(name, str):
            if name not in self._things:
                _load_entry_points()  # it may come from an installed package
            if name in self._things:
                return self._things[name]
        close = self._closest(str(name))
        hint = f"did you mean {close!r}? The" if close else "the"
        raise InputError(
            f"there is no {self.what} {name!r}: {hint} names are {', '.join(sorted(self._things))}; "
            "one from outside the package is loaded with --plugin FILE"
        )

    def __getitem__(self, name: str) -> T:
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def __repr__(self) -> str:
        return f"Registry({self.what!r}: {', '.join(self._things)})"

    def _closest(self, name: str) -> str | None:
        """The name that was probably meant: the same letters and digits, a part of one name, or a small slip."""
        plain = {_letters(known): known for known in self._things}
        asked = _letters(name)
        if asked in plain:
            return plain[asked]
        around = [known for letters, known in plain.items() if asked and (asked in letters or letters in asked)]
        if len(around) == 1:
            return around[0]
        slips = get_close_matches(asked, plain, n=1)
        return plain[slips[0]] if slips else None


def import_all(package: str, path: list[str]) -> None:
    """Import every module of a package, so that what its files register is found. Call it at the end of `__init__`."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _load_entry_points() -> None:
    from smoothcert.core.plugins import load_entry_points  # noqa: PLC0415 (plug-ins register, so they come second)

    load_entry_points()
