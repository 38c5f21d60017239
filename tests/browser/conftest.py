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


PATIENCE = 180_000  # milliseconds: a busy machine takes its time, and is not what is tested


class Patient:
    """A browser whose pages are waited for."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def new_context(self, **options: Any) -> Any:
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        return context


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser tests")
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no chromium on this machine: the report was not opened in a browser")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=executable, headless=True, args=ARGUMENTS)
        playwright.expect.set_options(timeout=PATIENCE)
        yield Patient(opened)
        opened.close()
