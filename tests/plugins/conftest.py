"""Everything in this folder that is called `my_...` is written as a user would, outside the package."""

from pathlib import Path

import pytest

from smoothcert.core.plugins import Plugin, load_plugin


@pytest.fixture(scope="module")
def my_things(forgotten: None) -> dict[str, Plugin]:
    """All plug-ins of this folder, loaded for the tests of one file: by kind."""
    files = sorted(Path(__file__).parent.glob("my_*.py"))
    return {file.stem.removeprefix("my_"): load_plugin(file) for file in files}
