"""Freed memory is kept for the next array, unless somebody has decided otherwise."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from smoothcert.core.freed_memory import OF_THE_USER

FAULTS = """
import resource
import numpy as np
from smoothcert.core.freed_memory import keep_freed_memory

done = keep_freed_memory()
for _ in range(5):
    np.ones(2**22, dtype=np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    np.ones(2**22, dtype=np.uint8)
print(done, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> tuple[bool, int]:
    """Whether memory is kept, and the page faults of a hundred arrays of 4 MB, in a process of its own."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(OF_THE_USER)}
    found = subprocess.run(
        [sys.executable, "-c", FAULTS], env=left | environment, capture_output=True, text=True, check=True
    )
    done, count = found.stdout.split()
    return done == "True", int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_arrays_take_the_memory_of_the_arrays_before_them():
    """A hundred arrays of 4 MB have 100 000 pages of 4 kB, and 6000 of 64 kB."""
    assert faults() == (True, pytest.approx(0, abs=500))


@pytest.mark.parametrize("name", ["GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_TOP_PAD_"])
def test_what_the_user_has_decided_stands(name):
    """Nothing is changed then."""
    assert faults(**{name: ""})[0] is False
