"""Help comes at once: little is imported for it. Modules are counted, because time depends on the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from smoothcert.cli import app, choices
from smoothcert.cli.commands import COMMANDS, GROUPS
from smoothcert.datasets.registry import READERS
from smoothcert.models.ensembles import AGGREGATIONS
from smoothcert.noise import NOISES
from smoothcert.present.figures import FIGURES, MEMBER_FIGURES

HEAVY = {"torch", "pandas", "matplotlib", "scipy", "numpy", "sklearn", "pydantic", "markdown_it", "pygments", "attr"}
CODE = """
import json, sys
sys.argv = ["smoothcert", *json.loads(sys.argv[1])]
from smoothcert.cli import main
main()
print(json.dumps(sorted(sys.modules)))
"""


def shown(*words: str) -> tuple[str, set[str]]:
    """The help of a command in a fresh process, and what was imported for it."""
    call = [sys.executable, "-c", CODE, json.dumps([*words, "--help"])]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text, _, modules = done.stdout.rstrip().rpartition("\n")
    return text, set(json.loads(modules))


def test_help_of_analyze_imports_little_and_lists_the_figures() -> None:
    text, modules = shown("analyze")
    assert len(modules) < 300, "half of them are Python's own, 60 are rich's and typer's"
    ours = {name.removeprefix("smoothcert.") for name in modules if name.startswith("smoothcert.")}
    assert {name for name in ours if not name.startswith("cli")} == {"core", "core.errors", "core.text"}
    assert ours & {f"cli.{name}" for name in (*COMMANDS, *GROUPS)} == {"cli.analyze"}
    words = " ".join(text.replace("│", " ").split())
    assert f"Of the figure: {', '.join(sorted(FIGURES))}. Default: curves." in words


@pytest.mark.parametrize("words", [(), ("analyze",), ("certify",), ("ensemble", "make"), ("figure", "members")])
def test_help_imports_nothing_heavy_and_looks_as_ever(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text, modules = shown(*words)
    assert not HEAVY & modules
    called = CliRunner().invoke(app, [*words, "--help"], prog_name="smoothcert")
    assert text.strip() == called.stdout.strip(), "the same as by the usual way, in which everything is loaded"


@pytest.mark.parametrize(
    ("place", "registered"),
    [
        ("{figures}", FIGURES), ("{member_figures}", MEMBER_FIGURES), ("{noises}", NOISES),
        ("{aggregations}", AGGREGATIONS), ("{datasets}", READERS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_names_that_are_read_from_files_are_those_that_are_registered(
    place: str, registered: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = choices.REGISTRIES[place][0]
    package = "smoothcert." + module.split(".")[1]
    inside = [name for name, thing in registered.items() if _module(thing).startswith(package)]
    monkeypatch.delitem(sys.modules, module)
    assert choices.filled(place) == ", ".join(sorted(inside))


def _module(thing: object) -> str:
    return str(getattr(thing, "__module__", ""))


def test_every_file_of_a_command_is_in_the_table() -> None:
    files = {path.stem for path in Path(choices.__file__).parent.glob("*.py")}
    helping = {"__init__", "choices", "command", "commands", "examples", "help", "options", "output"}
    assert files - helping - {"procedure_options", "router_options"} == {*COMMANDS, *GROUPS}
