"""Processes that insert into one memory, and are killed if so wished; run by tests as a program of its own.

Arguments: WHERE MODE. "crash": fifty children, one after the other, each killed by SIGKILL at a random moment.
"together": eight children at once, each to its end. Everything that was acknowledged, that is everything that `insert`
returned, is printed as JSON lines. Forking a process that has no torch takes milliseconds.
"""

import json
import os
import random
import signal
import sys
import time

import numpy as np

from smoothcert.memory import Memory
from smoothcert.procedures import Certificate, Scope
from smoothcert.stats import Tally

KILLS, PROCESSES, EACH = 50, 8, 40


def certificate(label: int, radius: float) -> Certificate:
    return Certificate(
        label=label,
        radius=radius,
        norm="l2",
        p_lower=0.5,
        reason="as simulated",
        alpha=0.001,
        procedure={"name": "simulated"},
        answers=(("bound", Tally((1, 2))),),
        noise={"name": "gaussian", "norm": "l2"},
        classifier={"fingerprint": "f"},
        scope=Scope.OWN,
    )


def work(where: str, seed: int, acknowledged: int, count: int | None) -> None:
    """Insert balls of conflicting classes, and acknowledge each."""
    rng = np.random.default_rng(seed)
    memory = Memory(where)
    while count is None or count > 0:
        count = None if count is None else count - 1
        x = rng.random(2).astype(np.float32)
        got = memory.insert(x, certificate(int(rng.integers(0, 4)), float(rng.random() * 0.2)))
        line = {"x": x.tolist(), "label": got.label, "radius": got.radius}
        os.write(acknowledged, json.dumps(line).encode() + b"\n")


def start(where: str, seed: int, count: int | None = None) -> tuple[int, int]:
    """A child, and the end of the pipe that its acknowledgements come out of."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        work(where, seed, into, count)
        os._exit(0)
    os.close(into)
    return child, out


def heard(out: int, already: bytes = b"") -> list[str]:
    """All whole lines, when the child is gone."""
    with os.fdopen(out, "rb") as pipe:
        content = already + pipe.read()
    return [line.decode() for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def crash(where: str) -> list[str]:
    lines, chance = [], random.Random(0)
    for seed in range(KILLS):
        child, out = start(where, seed)
        # Some are killed before, or while, they make or open the memory; the others in the middle of insertions.
        wanted, already = (0 if seed % 5 == 0 else chance.randrange(1, 10)), b""
        while already.count(b"\n") < wanted:
            already += os.read(out, 1)
        time.sleep(chance.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines += heard(out, already)
    return lines


def together(where: str) -> list[str]:
    children = [start(where, seed, EACH) for seed in range(PROCESSES)]
    lines = [line for _, out in children for line in heard(out)]
    ends = [os.waitpid(child, 0)[1] for child, _ in children]
    assert ends == [0] * PROCESSES, ends
    return lines


if __name__ == "__main__":
    assert "torch" not in sys.modules
    sys.stdout.write("".join({"crash": crash, "together": together}[sys.argv[2]](sys.argv[1])))
