"""The documentation site, built strictly and opened from its folder: offline, wide and narrow, light and dark."""

import html
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import smoothcert as sc
from smoothcert.noise import NOISES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 380, "height": 800}
PAGES = ("index", "concepts/certificate", "howto/report", "reference/commands", "reference/certify", "notebooks/audit")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: the site was not built")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


@pytest.fixture
def opened(browser: Any, site: Path) -> Iterator[Callable[..., Any]]:
    """A function that opens a page of the site; at the end nothing was asked of a host, and the console is silent."""
    heard: list[str] = []
    contexts = []

    def open_page(page: str, *, viewport: Any = WIDE, scheme: str = "light") -> Any:
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        contexts.append(context)
        tab = context.new_page()
        tab.on(
            "request", lambda request: None if request.url.startswith(("file:", "data:")) else heard.append(request.url)
        )
        tab.on("pageerror", lambda error: heard.append(str(error)))
        tab.goto((site / f"{page}.html").as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert heard == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    missing = [name for name in sc.__all__ if f'.{name}"' not in text and f"sc.{name}<" not in text]
    assert missing == []


def test_every_command_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in ("train", "certify", "verify", "attack", "ensemble plan", "memory info", "model import"):
        assert f"smoothcert {command}" in text
    assert ", ".join(NOISES) in text, "names that are registered stand where the help has a place for them"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_without_a_network(opened: Callable[..., Any], page: str, scheme: str) -> None:
    tab = opened(page, scheme=scheme)
    assert tab.locator("h1").first.is_visible()
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = max(int(part) for part in background.strip("rgba()").split(",")[:3]) < 80
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_has_no_sideways_scrolling(opened: Callable[..., Any], page: str) -> None:
    tab = opened(page, viewport=PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_search_works_from_a_folder(opened: Callable[..., Any]) -> None:
    tab = opened("index")
    tab.locator("input.md-search__input").click()
    tab.locator("input.md-search__input").press_sequentially("Clopper")
    tab.wait_for_selector(".md-search-result__item a")
    assert "statistics" in "".join(
        link.get_attribute("href") for link in tab.locator(".md-search-result__item a").all()
    )


@pytest.mark.parametrize("typed", ["--rotate-every", "serve --rotate-every"])
def test_an_option_is_found_with_its_dashes(opened: Callable[..., Any], typed: str) -> None:
    tab = opened("index")
    tab.locator("input.md-search__input").click()
    tab.locator("input.md-search__input").press_sequentially(typed)
    tab.wait_for_selector(".md-search-result__item a[href*='howto/serve.html']")


def test_what_explains_comes_first_in_a_search(opened: Callable[..., Any]) -> None:
    tab = opened("index")
    tab.locator("input.md-search__input").click()
    tab.locator("input.md-search__input").press_sequentially("sigma")
    tab.wait_for_selector(".md-search-result__item a")
    assert "howto/sigma.html" in tab.locator(".md-search-result__item a").first.get_attribute("href")


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("page", ["index", "paths/production", "howto/members"])
def test_no_part_of_a_command_is_out_of_sight(opened: Callable[..., Any], page: str, viewport: Any) -> None:
    tab = opened(page, viewport=viewport)
    blocks = ".language-bash pre > code, .language-python pre > code"
    assert tab.locator(blocks).count() > 2
    hidden = "codes => codes.filter(code => code.scrollWidth > code.clientWidth).map(code => code.textContent)"
    assert tab.eval_on_selector_all(blocks, hidden) == []
    cut = "options => options.filter(option => option.getClientRects().length > 1).map(option => option.textContent)"
    assert tab.eval_on_selector_all("code .option", cut) == [], "an option is on one line"


def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html") if path.name != "404.html"}
    names = {path: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', text):
            parts = urlsplit(html.unescape(link))
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            there = target.exists() and (not parts.fragment or unquote(parts.fragment) in names.get(target, set()))
            broken += [] if there else [f"{path.relative_to(site)}: {link}"]
    assert broken == []
