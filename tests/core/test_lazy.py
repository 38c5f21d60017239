"""A module that is imported when it is first used."""

import math
import subprocess
import sys

import pytest

from smoothcert.core.lazy import LazyModule, special


def test_it_stands_for_the_module() -> None:
    lazy = LazyModule("math")
    assert lazy.sqrt is math.sqrt
    assert "sqrt" in vars(lazy), "looked up once"
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = lazy.nothing_of_that_name
    assert special.ndtr(0.0) == 0.5


def test_bounds_and_noises_do_not_wait_for_scipy() -> None:
    code = "import sys, smoothcert.procedures, smoothcert.noise; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
