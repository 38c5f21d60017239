"""Every code block of the documentation runs, page by page, and so does every notebook."""

import json
import re
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


for public in sc.__all__:  # what the package registers is there before: only what pages add is forgotten
    getattr(sc, public)


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


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page)], ids=name)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    follow(blocks_of(page.read_text(encoding="utf-8")), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
