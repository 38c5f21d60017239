"""A real Chromium, without a network; where there is none, these tests are skipped and say so."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser tests")
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no chromium on this machine: the report was not opened in a browser")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=executable, headless=True, args=ARGUMENTS)
        yield opened
        opened.close()
