"""Every code block of the documentation runs, page by page, and so does every notebook."""

import json
import re
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from documents import RUN, SHOWN, blocks_of, follow

import smoothcert as sc
import smoothcert.attack
import smoothcert.audit

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
# A command in an indented block would escape the test.
HIDDEN = re.compile(r"^ {4}(smoothcert|python|pip|ray|torchrun|import|from) ", re.M)


def name(path: Path) -> str:
    return str(path.relative_to(DOCS))


def has_code(page: Path) -> bool:
    return any(block.kind in RUN and block.reason is None for block in blocks_of(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks_of(text)
    assert len(found) * 2 == len(re.findall(r"^```", text, re.M)), "a block that is not read is not run"
    for block in found:
        assert block.kind in (*RUN, *SHOWN), f"say which language it is: {block.code[:60]}"
        assert block.reason is None or len(block.reason) > 10, "say why it is not run"
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    assert not HIDDEN.search(outside), "code belongs in a fenced block"


def brought_data(folder: Path) -> None:
    run = sc.Run.open(folder / "runs" / "photos")
    assert run.config.data.preprocessing == {"resize": "8x8", "filter": "bilinear"}
    assert len(run.records()) == 40
    assert sum(record.correct and record.radius > 0 for record in run.records()) > 10
    lines = (folder / "answers.csv").read_text().splitlines()
    assert lines[0].startswith("input,class,label,radius")
    assert len(lines) == 1 + len(list((folder / "photos" / "3").iterdir())) + 1


def brought_model(folder: Path) -> None:
    names = ("module", "onnx", "python", "shell")
    module, onnx, python, shell = ([*sc.Run.open(folder / "runs" / name).certificates()] for name in names)
    # One linear layer: where two scores are equal but for rounding, and only there, the runtimes vote otherwise.
    moved = [abs(a.votes[k] - b.votes[k]) for a, b in zip(module, onnx, strict=True) for k in range(10)]
    assert max(moved) <= 2
    assert [one.to_json() for one in python] == [one.to_json() for one in shell]
    assert sc.load_model(folder / "net.safetensors").architecture.mean == (0.4914, 0.4822, 0.4465)


OUTCOMES: dict[str, Callable[[Path], None]] = {"howto/data.md": brought_data, "howto/model.md": brought_model}
"""What must have come of a page, beyond that it ran."""


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page)], ids=name)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    follow(blocks_of(page.read_text(encoding="utf-8")), tmp_path)
    OUTCOMES.get(name(page), lambda _: None)(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_runs_and_shows_what_it_prints(notebook: Path, tmp_path: Path) -> None:
    spec = spec_from_file_location("run_notebooks", DOCS / "run_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    sys.modules["run_notebooks"] = script
    spec.loader.exec_module(script)
    kept, fresh = json.loads(notebook.read_text(encoding="utf-8")), script.executed(notebook, tmp_path)
    assert kept["nbformat"] == 4
    assert len({cell["id"] for cell in kept["cells"]}) == len(kept["cells"])
    for before, after in zip(kept["cells"], fresh["cells"], strict=True):  # digits may differ on another CPU
        assert bool(before.get("outputs")) == bool(after.get("outputs")), "python docs/run_notebooks.py was forgotten"
