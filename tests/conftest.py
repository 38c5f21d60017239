"""Tests keep what they cache in a folder of their own."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    patch = pytest.MonkeyPatch()
    patch.setenv("SMOOTHCERT_CACHE", str(tmp_path_factory.mktemp("cache")))
