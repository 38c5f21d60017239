"""Freed memory is kept for the next array: on Linux every large one would else be handed out anew, page by page.

What a layer of a network gives is megabytes, and is freed after the next layer. The C library gives such pieces back to
the system at once, and the system clears every page again before the next layer may write to it: a quarter of the time
of a ResNet-20 that torch runs on a CPU, and a tenth of training a LeNet (`benchmarks/freed_memory.py`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of mallopt, see malloc.h
SETTINGS = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**28), (_TOP_PAD, 2**24))
"""No piece is mapped by itself; what is free at the end of the heap goes back only above 256 MB."""

OF_THE_USER = ("GLIBC_TUNABLES", "MALLOC_")
"""How environment variables begin by which somebody has decided otherwise."""


@cache
def keep_freed_memory() -> bool:
    """Keep it, for the rest of this process; whether that was done: elsewhere than with glibc nothing is changed."""
    if not sys.platform.startswith("linux") or any(name.startswith(OF_THE_USER) for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    results = [mallopt(*setting) for setting in SETTINGS]
    return all(result == 1 for result in results)
