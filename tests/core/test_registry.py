import re
import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import smoothcert as sc
from smoothcert.core.described import Described
from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry, all_or_nothing, import_all


class Named:
    def __init__(self, name: Any) -> None:
        self.name = name


def animals() -> Registry[Any]:
    registry: Registry[Any] = Registry("animal")
    for name in ("grey-wolf", "red-fox"):
        registry.add(Named(name))
    return registry


def test_things_are_found_by_their_own_name_or_by_the_given_one_in_order() -> None:
    registry = animals()
    bear = registry.add(Named("bear"))
    cub = registry.named("cub")(bear)
    assert cub is bear is registry["bear"] is registry["cub"] is registry.find("cub")
    assert list(registry) == ["grey-wolf", "red-fox", "bear", "cub"]
    assert (len(registry), "bear" in registry, "boar" in registry, registry.get("boar")) == (4, True, False, None)
    assert repr(registry) == "Registry('animal': grey-wolf, red-fox, bear, cub)"


def test_a_name_that_is_taken_is_refused_and_nothing_is_replaced() -> None:
    registry = animals()
    before = registry["red-fox"]
    with pytest.raises(InputError, match="the animal name 'red-fox' is taken; register under another name"):
        registry.add(Named("red-fox"))
    assert registry["red-fox"] is before


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_thing_without_a_name_is_refused(name: object) -> None:
    with pytest.raises(InputError, match=f"an animal needs a name to be registered under, got {name!r}"):
        animals().add(Named(name))
    with pytest.raises(InputError, match="needs a name"):
        animals().add(object())


def test_a_cell_of_a_notebook_may_be_run_again() -> None:
    registry: Registry[Any] = Registry("animal")
    cell = "class Wolf:\n    name = 'wolf'\n"

    def run(module: str) -> Any:
        space: dict[str, Any] = {"__name__": module}
        exec(cell, space)
        return space["Wolf"]

    first, second = run("__main__"), run("__main__")
    registry.add(first)
    assert registry.add(second) is registry["wolf"] is second
    with pytest.raises(InputError, match="taken"):
        registry.add(run("somewhere"))


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("greywolf", "grey-wolf"), ("Red_Fox", "red-fox"), ("fox", "red-fox"), ("gray-wolf", "grey-wolf"), ("yak", None)],
)
def test_an_unknown_name_is_answered_with_the_likely_one_the_names_and_the_way_out(
    asked: str, meant: str | None
) -> None:
    with pytest.raises(InputError) as refusal:
        animals().find(asked)
    hint = f"did you mean {meant}? The" if meant else "the"
    assert str(refusal.value) == (
        f"there is no animal {asked!r}: {hint} names are grey-wolf, red-fox; "
        "one from outside the package is loaded with --plugin FILE"
    )


@pytest.mark.parametrize("name", [None, 3, ["red-fox"], {"name": "red-fox"}])
def test_what_is_no_name_is_refused_like_an_unknown_one(name: object) -> None:
    with pytest.raises(InputError, match=re.escape(f"there is no animal {name!r}")):
        animals().find(name)


def test_too_many_names_are_listed_by_a_command() -> None:
    registry: Registry[Any] = Registry("animal", listing="zoo list")
    for number in range(100):
        registry.add(Named(f"ant-{number}"))
    with pytest.raises(InputError, match=r"'ant-7-': did you mean ant-7\? See: zoo list; one from"):
        registry.find("ant-7-")
    with pytest.raises(InputError, match=r"'nat-77': did you mean ant-77 or ant-.* or ant-.*\? See: zoo"):
        registry.find("nat-77")
    with pytest.raises(InputError, match="'yak': see: zoo list; one from"):
        registry.find("yak")


def test_what_raises_registers_nothing() -> None:
    one, other = animals(), animals()
    with pytest.raises(InputError, match="taken"), all_or_nothing():
        [registry.add(Named("bear")) for registry in (one, other, one)]
    assert "bear" not in one
    assert "bear" not in other
    with all_or_nothing():
        one.add(Named("bear"))
    assert "bear" in one


def test_every_module_of_a_package_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "zoo_of_tests"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from smoothcert.core.registry import Registry, import_all\nANIMALS = Registry('animal')\n"
        "import_all(__name__, __path__)\n"
    )
    for name in ("wolf", "fox"):
        (package / f"{name}.py").write_text(f"from zoo_of_tests import ANIMALS\nANIMALS.add(object(), {name!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("zoo_of_tests")
    assert sorted(module.ANIMALS) == ["fox", "wolf"]
    import_all("zoo_of_tests", [str(package)])  # again, and nothing happens
    for name in [name for name in sys.modules if name.startswith("zoo_of_tests")]:
        del sys.modules[name]


ANIMALS: Registry[Any] = Registry("animal")


@dataclass(frozen=True)
class Animal(Described):
    registry: ClassVar[Registry[Any]] = ANIMALS

    @abstractmethod
    def legs(self) -> int: ...


def test_register_finds_the_registry_of_the_base_class() -> None:
    @sc.register
    @dataclass(frozen=True)
    class Ant(Animal):
        name = "ant"

        def legs(self) -> int:
            return 6

    assert ANIMALS["ant"] is Ant


def unfrozen() -> object:
    @sc.register
    @dataclass
    class Worm:
        registry = ANIMALS
        name = "worm"

    return Worm


def undecorated() -> object:
    @sc.register
    class Snail(Animal):
        name = "snail"
        shell: float = 1.0

        def legs(self) -> int:
            return 0

    return Snail


def from_nothing() -> object:
    @sc.register
    class Stone:
        name = "stone"

    return Stone


def unfinished() -> object:
    from smoothcert.stats import Bound

    @sc.register
    @dataclass(frozen=True)
    class Half(Bound):
        name = "half"

    return Half


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (unfrozen, r"the animal Worm is no frozen dataclass; write @dataclass\(frozen=True\)"),
        (undecorated, "the animal Snail is no frozen dataclass"),
        (from_nothing, "takes a class derived from Noise, Procedure, Bound or the like"),
        (lambda: sc.register("gaussian"), "takes a class derived from"),  # type: ignore[arg-type]
        (unfinished, "the bound Half does not define lower, top, unanimous, upper"),
    ],
)
def test_what_could_not_be_used_is_not_registered(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
