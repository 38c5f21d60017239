"""One server for all tests of a file."""

from collections.abc import Iterator

import pytest
from postgres import postgres, server
from serving import Served, serving

__all__ = ["postgres", "server"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running
