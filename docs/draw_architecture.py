"""Draw docs/architecture.svg from the import map in tests/test_architecture.py: python docs/draw_architecture.py."""

from html import escape
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parent
WIDTH, ROOM, HEIGHT, FLOOR, LEFT = 990, 150, 46, 104, 142


def load_map() -> ModuleType:
    """The test that enforces the map is the one place where it is written."""
    spec = spec_from_file_location("architecture_map", DOCS.parent / "tests" / "test_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(floors: dict[str, tuple[str, ...]], may_import: dict[str, set[str]], purposes: dict[str, str]) -> str:
    """One row per floor, the doors on top; under each room what it holds and which rooms it imports."""
    height = FLOOR * len(floors) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for level, (floor, rooms) in enumerate(reversed(floors.items())):
        top = 10 + level * FLOOR
        parts.append(f'<rect x="8" y="{top}" width="{WIDTH - 16}" height="{FLOOR - 10}" rx="8" fill="#eef2f6"/>')
        parts.append(f'<text x="20" y="{top + 28}" font-size="15" font-weight="bold" fill="#22364a">{floor}</text>')
        for place, room in enumerate(rooms):
            parts += _room(room, LEFT + place * (ROOM + 14), top, sorted(may_import[room] or ()), purposes[room])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _room(name: str, x: int, top: int, below: list[str], purpose: str) -> list[str]:
    title, box = f"{name} may import: {', '.join(below) or 'nothing'}", 'rx="6" fill="#ffffff" stroke="#4a6b8a"'
    bold = 'font-size="14" font-weight="bold" fill="#22364a"'
    lines = [
        f'<text x="{x + 10}" y="{top + 46 + 13 * line}" font-size="11" fill="#3d4f60">{escape(text)}</text>'
        for line, text in enumerate(_lines(purpose))
    ]
    return [
        f"<g><title>{escape(title)}</title>",
        f'<rect x="{x}" y="{top + 10}" width="{ROOM}" height="{HEIGHT + 28}" {box}/>',
        f'<text x="{x + 10}" y="{top + 30}" {bold}>{name}/</text>',
        *lines,
        "</g>",
    ]


def _lines(text: str, width: int = 24) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines[:3]


if __name__ == "__main__":
    house = load_map()
    (DOCS / "architecture.svg").write_text(draw(house.FLOORS, house.MAY_IMPORT, house.PURPOSES))
