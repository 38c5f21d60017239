import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

import pytest

from smoothcert.core.described import Described, first_difference, from_json, parse, plain, same
from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry

SHAPES: Registry[Any] = Registry("shape")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Pen:
    width: float
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Shape(Described):
    registry: ClassVar[Registry[Any]] = SHAPES


@SHAPES.add
@dataclass(frozen=True)
class Square(Shape):
    name: ClassVar[str] = "square"
    side: float = 1.0
    seen: int = field(default=0, metadata={"described": False})

    def __post_init__(self) -> None:
        if not self.side > 0:
            raise InputError(f"side must be positive, got {self.side}")

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"corners": 4}


@SHAPES.add
@dataclass(frozen=True)
class Group(Shape):
    name: ClassVar[str] = "group"
    parts: tuple[Shape, ...]
    pen: Pen
    kind: Literal["open", "closed"] = "open"
    at: float | Sequence[float] = 0.0
    count: int | None = None
    notes: Mapping[str, bool] = field(default_factory=dict)


WHOLE = Group((Square(2.0), Group((), Pen(1, Colour.BLUE))), Pen(0.5), "closed", (1.0, 2.0), 3, {"a": True})


def test_a_description_is_json_and_rebuilds_the_thing() -> None:
    described = WHOLE.describe()
    assert described["parts"][0] == {"name": "square", "side": 2.0, "corners": 4}
    assert described["pen"] == {"width": 0.5, "colour": "red"}
    written = json.loads(json.dumps(described))
    assert written == described
    again = Shape.from_description(written)
    assert again == WHOLE
    assert isinstance(again.parts[1].pen.colour, Colour)
    assert type(again.at) is tuple
    assert Group.from_description(written) == WHOLE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"side": 0.0}, "describes no shape: side must be positive, got 0.0"),
        ({"side": "2"}, "shape 'square': side must be a number, got '2'"),
        ({"side": True}, "side must be a number, got True"),
        ({"side": None}, "side must be a number, got None"),
        ({"side": math.nan}, "side must be a number, got nan"),
        ({"corners": 5}, "corners is 5, not 4"),
        ({"corners": 4.0}, "corners is 4.0, not 4"),
        ({"angle": 1}, "angle does not belong there"),
        ({"seen": 1}, "seen does not belong there"),
        ({"name": "circle"}, "there is no shape 'circle'"),
        ({"name": ["square"]}, "there is no shape"),
        ({"angle": object()}, "describes no shape: TypeError"),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),
)
def test_what_describes_nothing_is_refused_with_the_reason(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Shape.from_description(Square(2.0).describe() | change)


@pytest.mark.parametrize("given", [None, "square", [1], {}, {"side": 1.0}])
def test_a_description_is_an_object_with_a_name(given: object) -> None:
    with pytest.raises(InputError, match="a shape is described by its name and options, got"):
        Shape.from_description(given)


def test_a_missing_option_is_not_filled_in() -> None:
    with pytest.raises(InputError, match="describes no shape: side is missing"):
        Shape.from_description({"name": "square", "corners": 4})


def test_one_class_makes_none_of_another() -> None:
    with pytest.raises(InputError, match="'square' is a shape, but no Group"):
        Group.from_description(Square().describe())


def test_a_whole_number_stands_for_a_float_and_stays_what_it_was() -> None:
    assert Square(2).describe()["side"] == 2
    assert Shape.from_description({"name": "square", "side": 2, "corners": 4}) == Square(2)


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (int, 1.0, "x must be a whole number, got 1.0"),
        (int, True, "x must be a whole number, got True"),
        (float, math.inf, "x must be a number, got inf"),
        (str, 1, "x must be a text, got 1"),
        (bool, 1, "x must be true or false, got 1"),
        (int | None, "a", "x must be a whole number, got 'a'"),
        (float | Sequence[float], "a", "x must be a number, got 'a'"),
        (Literal["a", "b"], "c", "x must be one of 'a', 'b', got 'c'"),
        (Literal[1], True, "x must be one of 1, got True"),
        (tuple[int, int], [1], "x must be a list of 2, got 1"),
        (tuple[int, ...], [1, "a"], r"x\[1\] must be a whole number, got 'a'"),
        (list[int], 3, "x must be a list, got 3"),
        (dict[str, int], {"a": "b"}, r"x\.a must be a whole number, got 'b'"),
        (Mapping[str, int], [], r"x must be an object, got \[\]"),
        (Colour, "green", "x must be one of 'red', 'blue', got 'green'"),
        (Pen, {"colour": "red"}, "x does not name width"),
        (Pen, {"width": 1.0, "length": 2}, "x has 'length', which this version does not know"),
        (Pen, 3, "x must be an object, got 3"),
        (Shape, {"name": "circle"}, "there is no shape 'circle'"),
        (complex, "1j", "x cannot be made from '1j'"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_by_its_place(hint: Any, value: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(hint, value, "x")


@pytest.mark.parametrize(
    ("hint", "value", "made"),
    [
        (Any, {"a": [1]}, {"a": [1]}),
        (int | float, 1, 1),
        (int | None, None, None),
        (tuple[float, int], [1.5, 2], (1.5, 2)),
        (list[str], ("a",), ["a"]),
        (dict[str, Pen], {"p": {"width": 1.0}}, {"p": Pen(1.0)}),
        (Pen, Pen(2.0), Pen(2.0)),
        (Shape, Square(3.0), Square(3.0)),
        (complex, 1j, 1j),
    ],
    ids=str,
)
def test_what_fits_is_made(hint: Any, value: object, made: object) -> None:
    found = parse(hint, value, "x")
    assert found == made
    assert type(found) is type(made)


def test_a_dataclass_goes_to_json_and_back() -> None:
    pen = Pen(0.25, Colour.BLUE)
    assert plain(pen) == {"width": 0.25, "colour": "blue"}
    assert from_json(Pen, plain(pen), "pen") == pen
    assert from_json(Pen, {"width": 0.25}, "pen") == Pen(0.25)


def test_same_is_the_same_to_the_last_digit_and_type() -> None:
    assert same({"a": (1, 2), "b": None}, {"b": None, "a": [1, 2]})
    assert not any(same(a, b) for a, b in [(1, 1.0), (1, True), (0.1 + 0.2, 0.3), ({"a": None}, {}), ("1", 1)])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, "a.c is 2, not 3"),
        ({"a": 1}, {}, "a does not belong there"),
        ({"a": None}, {"b": None}, "a does not belong there"),
        ({}, {"a": {"b": 1}}, "a is missing"),
        ({"a": [1, 2]}, {"a": [1]}, r"a is [1, 2], not [1]"),
        (1, True, "it is 1, not True"),
    ],
)
def test_the_first_difference_is_named(old: object, new: object, words: str) -> None:
    assert first_difference(old, new) == words
