"""The pictures are drawn by the library: the script draws each without error, and always the same."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("draw_pictures", DOCS / "draw_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["draw_pictures"] = module
    spec.loader.exec_module(module)
    return module


def test_every_concept_has_one_picture_that_is_there(script: ModuleType) -> None:
    for page in (DOCS / "concepts").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert text.count("![") == 1, page
        assert f"../pictures/{page.stem}.svg" in text, page
        assert page.stem in script.DRAWN, page
    assert {path.stem for path in (DOCS / "pictures").glob("*.svg")} == set(script.DRAWN)


@pytest.mark.slow
def test_the_script_draws_them(script: ModuleType, tmp_path: Path) -> None:
    for name in script.DRAWN:
        drawn = script.draw(name, tmp_path).read_text()
        assert drawn.startswith("<?xml")
        assert len(drawn) > 10_000, "there is something on it"
        assert "<dc:date>" not in drawn
    # Of two runs on one machine; other CPUs may move the last digit of a curve.
    again = tmp_path / "again"
    again.mkdir()
    for name in ("noise", "certificate"):
        assert script.draw(name, again).read_bytes() == (tmp_path / f"{name}.svg").read_bytes()
