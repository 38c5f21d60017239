"""The one way between frozen dataclasses and JSON: noises, procedures, bounds, searches, recipes, run configurations.

`plain` turns an object into JSON-able data. `parse` is the way back: it follows the type hints of the fields, and what
does not fit is refused in a sentence that names the place. `Described` is the base of things that stand in a record by
name: their description must rebuild them, to the last option.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry

T = TypeVar("T")
IF_ANY = "if any"


class Described:
    """Something that stands in a record as its name and its fields, and can be made again from that.

    A base class of a kind (`Noise`, `Procedure`) sets `registry`; a concrete class sets `name`, is a frozen dataclass,
    and is registered.
    """

    registry: ClassVar[Registry[Any]]
    name: ClassVar[str]

    def describe(self) -> dict[str, Any]:
        """Name and fields, JSON-able. An override may add what follows from the fields, or leave out defaults."""
        return {"name": self.name} | fields_of(self)

    @classmethod
    def from_description(cls, description: object) -> Self:
        """The thing that describes itself like this, to the last digit; anything else is refused.

        Of a base class, any of its kind; of a class, that one only.
        """
        what = cls.registry.what
        if not isinstance(description, Mapping) or "name" not in description:
            raise InputError(f"{cls.registry.one} is described by its name and options, got {description!r}")
        kind = cls.registry.find(description["name"])
        if not issubclass(kind, cls):
            raise InputError(f"{description['name']!r} is {cls.registry.one}, but no {cls.__name__}")
        known = {f.name for f in dataclasses.fields(kind) if f.init}
        given = {key: value for key, value in description.items() if key in known}
        try:
            made = kind(**_arguments(kind, given, f"{what} {description['name']!r}"))
            again = made.describe()
            wrong = None if same(again, description) else first_difference(description, again)
        except Exception as error:  # whatever a class, perhaps from outside, says to values that it cannot have
            wrong = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        if wrong is not None:
            raise InputError(f"{dict(description)!r} describes no {what}: {wrong}")
        return cast(Self, made)


def fields_of(thing: Any) -> dict[str, Any]:
    """The fields of a dataclass, JSON-able; those with `metadata={"described": False}` are left out.

    Those with `metadata={"described": IF_ANY}` are left out where they are None: what had no such field stays the same.
    """
    kept = {f.name: f.metadata.get("described", True) for f in dataclasses.fields(thing)}
    found = {name: plain(getattr(thing, name)) for name, how in kept.items() if how}
    return {name: value for name, value in found.items() if value is not None or kept[name] != IF_ANY}


def plain(value: Any) -> Any:
    """The same as JSON has it: tuples are lists, enums their values, described things their description."""
    if isinstance(value, Described):
        return value.describe()
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def parse(hint: Any, value: Any, where: str) -> Any:
    """The value that `plain` turned into this, for a place of the type `hint`; refused, naming `where`, if none did."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return value
    if origin in (Union, types.UnionType):
        return _parse_union(arguments, value, where)
    if origin is Literal:
        if any(value == option and type(value) is type(option) for option in arguments):
            return value
        raise InputError(f"{where} must be one of {', '.join(map(repr, arguments))}, got {value!r}")
    if origin in (tuple, list, Sequence):
        return _parse_items(origin, arguments, value, where)
    if origin in (dict, Mapping) or hint in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise InputError(f"{where} must be an object, got {value!r}")
        inner = arguments[1] if arguments else Any
        return {str(key): parse(inner, item, f"{where}.{key}") for key, item in value.items()}
    return _parse_class(hint, value, where)


def from_json(kind: type[T], value: Any, where: str) -> T:
    """A dataclass from its JSON object: fields parsed by their hints, unknown ones refused, missing ones defaulted."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be an object, got {value!r}")
    allowed = {f.name: f for f in dataclasses.fields(cast(Any, kind)) if f.init}
    for key in value:
        if key not in allowed:
            raise InputError(f"{where} has {key!r}, which this version does not know")
    for name, f in allowed.items():
        needed = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if needed and name not in value:
            raise InputError(f"{where} does not name {name}")
    return kind(**_arguments(kind, value, where))


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same to the last digit and type: 1, 1.0 and true are three."""
    return _canonical(a) == _canonical(b)


def first_difference(old: Any, new: Any, where: str = "") -> str:
    """The first place where two JSON values differ, in words."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}, key=str):
            place = f"{where}.{key}" if where else str(key)
            if key not in old:
                return f"{place} is missing"
            if key not in new:
                return f"{place} does not belong there"
            if not same(old[key], new[key]):
                return first_difference(old[key], new[key], place)
    return f"{where or 'it'} is {old!r}, not {new!r}"


def _canonical(value: Any) -> str:
    return json.dumps(plain(value), sort_keys=True)


def _arguments(kind: type[Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    hints = _hints(cast(Any, kind))
    return {key: parse(hints[key], value, f"{where}: {key}") for key, value in given.items()}


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _parse_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    refused: InputError | None = None
    # A whole number is no float where both are allowed: the narrower type is asked first.
    for option in sorted((o for o in options if o is not type(None)), key=lambda o: o is float):
        try:
            return parse(option, value, where)
        except InputError as error:
            refused = error
    raise refused or InputError(f"{where} cannot be {value!r}")


def _parse_items(origin: Any, arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    if not isinstance(value, list | tuple):
        raise InputError(f"{where} must be a list, got {value!r}")
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise InputError(f"{where} must be a list of {len(arguments)}, got {len(value)}")
        return tuple(
            parse(hint, item, f"{where}[{i}]") for i, (hint, item) in enumerate(zip(arguments, value, strict=True))
        )
    hint = arguments[0] if arguments else Any
    items = [parse(hint, item, f"{where}[{i}]") for i, item in enumerate(value)]
    return items if origin is list else tuple(items)


def _parse_class(hint: Any, value: Any, where: str) -> Any:
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if hint in words:
        # JSON has one kind of number: 1 stands for 1.0 where a float is meant, never the other way round.
        number = hint is float and type(value) in (int, float) and math.isfinite(value)
        if not number and (hint is float or type(value) is not hint):
            raise InputError(f"{where} must be {words[hint]}, got {value!r}")
        return value
    if isinstance(hint, type) and issubclass(hint, Described):
        return value if isinstance(value, hint) else hint.from_description(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            options = ", ".join(repr(option.value) for option in hint)
            raise InputError(f"{where} must be one of {options}, got {value!r}") from None
    if isinstance(hint, type) and isinstance(value, hint):
        return value
    if dataclasses.is_dataclass(hint):
        return from_json(cast(type[Any], hint), value, where)
    raise InputError(f"{where} cannot be made from {value!r}")
