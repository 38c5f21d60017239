"""The examples run as they stand, and say what they should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def output(name: str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_a_forest_on_a_table() -> None:
    lines = output("sklearn_table.py").splitlines()
    assert len(lines) == 10
    found = [re.match(r"truth (\d) \| class (\d) below l2 radius (\d\.\d+)", line) for line in lines]
    radii = [float(match[3]) for match in found if match and match[1] == match[2]]
    assert len(radii) >= 8, "most answers are right"
    assert max(radii) <= 1.2317, "1000 draws at sigma .5 cannot show more than 1.23"


@pytest.mark.slow
def test_a_resnet20() -> None:
    lines = output("resnet20.py").splitlines()
    assert len(lines) == 2
    assert all("of 1000 votes" in line for line in lines)
