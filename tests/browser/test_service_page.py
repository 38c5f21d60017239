"""The page of a server in a real browser: drawn by pointer and by key, dropped, watched, perturbed, asked again."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Served, images, png, serving

pytestmark = pytest.mark.slow
ANSWERED = re.compile(r"^(\d|–)$")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("page")) as running:
        yield running


@pytest.fixture(params=[(1280, 900, "light"), (390, 844, "dark")], ids=["wide light", "phone dark"])
def page(browser: Any, served: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page; at the end the console was silent, and nothing was fetched from elsewhere."""
    width, height, colours = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours)
    page, heard = context.new_page(), list[str]()
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    own = (served.url, "data:", "blob:")
    page.on("request", lambda one: None if one.url.startswith(own) else heard.append(one.url))
    page.goto(served.url)
    yield page
    assert heard == []
    context.close()


def test_draw_watch_and_perturb(page: Any, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    expect(page.locator("#votes li")).to_have_count(10)
    page.click("#go")
    expect(page.locator("#said")).to_have_text(re.compile("Draw something first"))
    box = page.locator("#pad").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.8 * box["height"], steps=5)
    page.mouse.up()
    page.fill("#radius", "0.05")
    page.click("#go")
    expect(page.locator("#class")).to_have_text(ANSWERED)
    expect(page.locator("#reason")).to_have_text(re.compile("radius 0.05 .* receipt [0-9a-f]{12}"))
    expect(page.locator("#drawn")).to_have_text(re.compile(r"\(\d+\)"))
    expect(page.locator("#noisy")).to_be_visible()
    for how in ("random", "attack"):
        expect(page.locator(f"#{how}-said")).to_have_text(re.compile("0.[45]. away"))
    page.locator("#size").fill("0.2")
    expect(page.locator("#size-said")).to_have_text("0.20")
    expect(page.locator("#random-said")).to_have_text(re.compile("0.(1|2). away"))
    # Nothing is wider than the window.
    assert page.locator("main").bounding_box()["width"] <= page.viewport_size["width"]
    page.screenshot(path=tmp_path / "page.png", full_page=True)


def test_choose_a_file_and_draw_by_key(page: Any) -> None:
    from playwright.sync_api import expect

    page.set_input_files("#file", {"name": "digit.png", "mimeType": "image/png", "buffer": png(images(1)[0])})
    expect(page.locator("#class")).to_have_text(ANSWERED)
    page.click("#clear")
    page.focus("#pad")
    for key in (" ", *["ArrowDown"] * 5, *["ArrowRight"] * 3, " ", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#claim")).to_have_text(re.compile("voting|No change|abstains"))
    expect(page.locator("#class")).to_have_text(ANSWERED)
