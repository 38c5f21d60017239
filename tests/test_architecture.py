"""The import map of the house: rooms import downwards only, torch stays where it has business, no cycles."""

import ast
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "smoothcert"

# room -> the rooms it may import. Order: from the ground up.
MAY_IMPORT = {
    "core": set(),
    "stats": {"core"},
    "noise": {"core", "stats"},
    "procedures": {"core", "stats"},
    "models": {"core", "noise"},
    "datasets": {"core"},
    "memory": {"core", "stats", "noise", "procedures"},
    "engine": {"core", "stats", "noise", "procedures", "models", "memory"},
    "training": {"core", "noise", "models", "datasets"},
    "runs": {"core", "stats", "noise", "procedures"},
    "analysis": {"core", "stats", "noise", "procedures", "runs"},
    "present": {"core", "stats", "noise", "procedures", "runs", "analysis"},
    "audit": {"core", "stats", "noise", "procedures", "models", "datasets", "memory", "engine", "runs"},
    "attack": {"core", "noise", "procedures", "engine", "training", "runs", "analysis", "present"},
    "workflows": {
        "core", "stats", "noise", "procedures", "models", "datasets", "memory", "engine", "training", "runs",
        "analysis", "present", "audit", "attack",
    },
    "service": {
        "core", "stats", "noise", "procedures", "datasets", "memory", "engine", "runs", "audit", "attack", "workflows",
    },
    # Another door: what scikit-learn calls an estimator, over the engine alone.
    "estimators": {"core", "noise", "procedures", "engine"},
    # What it parses to (subsets, predictions' options), and tables to show; everything else is the workflows'.
    "cli": {"core", "procedures", "datasets", "analysis", "present", "workflows", "service"},
}  # fmt: skip
FLOORS = {
    "foundation": ("core", "stats"),
    "mathematics": ("noise", "procedures"),
    "machinery": ("models", "datasets", "memory", "engine", "training"),
    "evidence": ("runs", "analysis", "present", "audit", "attack"),
    "doors": ("workflows", "estimators", "service", "cli"),
}
PURPOSES = {
    "core": "errors, JSON, registries, plug-ins, randomness",
    "stats": "tallies, bounds, exact tests",
    "noise": "law, geometry and drawing of each noise",
    "procedures": "conversations, certificates",
    "models": "networks, formats, ensembles",
    "datasets": "readers, subsets",
    "memory": "certified regions that are kept",
    "engine": "Smoothed, sampler, pools, backends",
    "training": "objectives, loop, recipes",
    "runs": "what is on disk",
    "analysis": "numbers",
    "present": "tables, figures, the page",
    "audit": "whether a run holds",
    "attack": "attempts to refute it",
    "workflows": "one function per use case",
    "estimators": "for those who come from scikit-learn",
    "service": "answers over HTTP",
    "cli": "parse, call, render",
}
NO_TORCH = {"stats", "procedures", "runs", "analysis", "present"}  # never
LAZY_TORCH = {"core", "noise", "memory"}  # only inside functions: importing the room does not import torch


def imports(path: Path) -> set[str]:
    """Modules imported anywhere in a file, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


def rooms() -> list[str]:
    return sorted(p.name for p in SRC.iterdir() if p.is_dir() and p.name != "__pycache__")


def test_every_room_is_on_the_map() -> None:
    assert set(rooms()) == set(MAY_IMPORT)


@pytest.mark.parametrize("room", rooms())
def test_imports_go_down(room: str) -> None:
    allowed = MAY_IMPORT[room]
    for path in (SRC / room).rglob("*.py"):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] != "smoothcert" or len(parts) < 2 or parts[1] not in MAY_IMPORT or parts[1] == room:
                continue
            assert parts[1] in allowed, f"{path.relative_to(SRC)} imports {name}"


def test_every_room_is_on_a_floor_and_the_picture_is_drawn_from_the_map() -> None:
    assert {room for floor in FLOORS.values() for room in floor} == set(MAY_IMPORT) == set(PURPOSES)
    docs = SRC.parents[1] / "docs"
    spec = spec_from_file_location("draw_architecture", docs / "draw_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    drawn = script.draw(FLOORS, MAY_IMPORT, PURPOSES)
    assert (docs / "architecture.svg").read_text() == drawn, "draw it again: python docs/draw_architecture.py"


def test_the_map_has_no_cycle() -> None:
    order = list(MAY_IMPORT)
    for room, allowed in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(room) for other in allowed), room


@pytest.mark.parametrize("room", sorted(NO_TORCH))
def test_no_torch_where_it_has_no_business(room: str) -> None:
    for path in (SRC / room).rglob("*.py"):
        assert not any(name.split(".")[0] == "torch" for name in imports(path)), path


@pytest.mark.parametrize("room", sorted(NO_TORCH | LAZY_TORCH))
def test_importing_the_room_does_not_import_torch(room: str) -> None:
    code = f"import sys, smoothcert.{room}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_there_is_no_utils_and_no_long_file() -> None:
    for path in SRC.rglob("*.py"):
        assert "utils" not in path.stem
        assert len(path.read_text().splitlines()) <= 300, f"{path} is long: two things in one room?"
