"""What a benchmark prints is only worth keeping if it still runs; the cheap ones are run small."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.slow
def test_records_are_written_read_and_resumed() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "records.py", "--records", "20"], capture_output=True, text=True, check=True
    )
    written, analyze, resume = done.stdout.splitlines()
    assert re.match(r"20 records: \d+ bytes and \d+ microseconds each to write", written)
    assert analyze.startswith("analyze: ")
    assert resume.startswith("resume: ")
