"""What was acknowledged is there: after fifty kills, and when eight processes insert at once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert.memory import Memory

FORKING = Path(__file__).parent / "forking.py"


def acknowledged(where: str, mode: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(FORKING), where, mode], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_nothing_is_lost(memory: Memory, said: list[dict[str, Any]]) -> None:
    assert memory.check() == []
    for line in said:
        if line["label"] >= 0:
            found = memory.answer(np.array(line["x"], dtype=np.float32))
            assert found is not None
            assert found.label == line["label"]
            assert found.radius >= line["radius"]


def test_fifty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    where = tmp_path / "regions.sqlite"
    said = acknowledged(str(where), "crash")
    assert len(said) > 100
    with Memory(where) as memory:
        assert_nothing_is_lost(memory, said)
        assert len({region.label for region, _ in memory.regions()}) == 4


def test_eight_processes_at_once(where: str) -> None:
    said = acknowledged(where, "together")
    assert len(said) == 8 * 40
    with Memory(where) as memory:
        assert_nothing_is_lost(memory, said)
        regions = [region for region, _ in memory.regions()]
        assert [region.id for region in regions] == list(range(1, len(regions) + 1))
        assert len({region.label for region in regions}) == 4, "conflicting classes were stored"
        cut = sum(region.radius < json.loads(region.about)["radius"] for region in regions)
        assert cut > 10, "they were in each other's way"
