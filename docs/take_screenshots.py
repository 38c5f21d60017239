"""Take docs/report.png, docs/demo.png and docs/serve.png anew: python docs/take_screenshots.py (needs Chromium).

The first two are of `smoothcert demo`, the third is the page of `smoothcert serve` after somebody drew a 3.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

DOCS = Path(__file__).parent
PATIENCE = 180_000  # milliseconds
THREE = [(0.35, 0.22), (0.62, 0.18), (0.5, 0.42), (0.65, 0.58), (0.6, 0.78), (0.35, 0.8)]
"""A digit, as shares of the pad's width and height."""


def smoothcert(*words: str) -> list[str]:
    """The command line of this very package."""
    return [sys.executable, "-m", "smoothcert", *words]


def demonstration(browser: Any, folder: Path) -> None:
    """The demo's figure and the upper part of its page."""
    subprocess.run(smoothcert("demo", "--out", "demo"), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shutil.copy(folder / "demo" / "radius-accuracy.png", DOCS / "demo.png")
    page = browser.new_page(viewport={"width": 1100, "height": 3000})
    page.goto((folder / "demo" / "report.html").as_uri())
    page.wait_for_selector(".card")
    page.screenshot(path=DOCS / "report.png")


def server(browser: Any, folder: Path) -> None:
    """The page of a server, with an answer."""
    words = smoothcert("serve", "--model", "zoo:mnist-0.50", "--out", "served", "--port", "0")
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = next(line.split()[3] for line in process.stdout if " answers at " in line)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        pad = page.locator("#pad").bounding_box()
        places = [(pad["x"] + x * pad["width"], pad["y"] + y * pad["height"]) for x, y in THREE]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=5)
        page.mouse.up()
        page.click("#go")
        for how in ("random", "attack"):
            expect(page.locator(f"#{how}-said")).to_have_text(re.compile("away"), timeout=PATIENCE)
        page.screenshot(path=DOCS / "serve.png")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    with sync_playwright() as started, tempfile.TemporaryDirectory() as scratch:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        chromium = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        demonstration(chromium, Path(scratch))
        server(chromium, Path(scratch))
        chromium.close()
