"""A forked process that works and then kills itself, and what it acknowledged before."""

import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

Say = Callable[[Any], None]


def die() -> None:
    """As by kill -9: nothing is flushed, closed or rolled back."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed(work: Callable[[Say], None]) -> list[Any]:
    """What `work` said in a process of its own, which must end by `die`."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(out)
            work(lambda said: os.write(into, json.dumps(said).encode() + b"\n") and None)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        said = [json.loads(line) for line in pipe]
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert end == -signal.SIGKILL, f"it ended with {end}"
    return said
