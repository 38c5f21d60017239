"""Does something once for every operation on files that it consists of, and fails, or is killed, at that operation.

Run by `test_injection.py` with the shim preloaded; arguments: WORKLOAD FOLDER. For each way to fail and n = 1, 2, ... a
process is forked that does the work with a fault at its n-th operation, until it gets through without having met it.
Another one then looks at what is left, as the next start would. Printed is one JSON object: how many faults there were,
and what did not hold.
"""

import ctypes
import functools
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads import WORKLOADS

from smoothcert.core.errors import InputError

SHIM = ctypes.CDLL(None)
MODES = {"error once": 1, "error from then on": 2, "killed before": 3, "killed in the middle": 4}
MOST = 2000  # operations: a workload that never ends is a mistake


def child(work: Callable[[Callable[[Any], None]], None]) -> tuple[list[Any], int]:
    """What a forked process said, and how it ended: the number of the signal, or the status."""
    out, into = os.pipe()
    process = os.fork()
    if not process:
        os.close(out)
        status = 1
        try:
            work(lambda said: os.write(into, json.dumps(said).encode() + b"\n") and None)
            status = 0
        except BaseException:
            os.write(into, json.dumps({"traceback": traceback.format_exc()}).encode() + b"\n")
        os._exit(status)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        lines = [json.loads(line) for line in pipe.read().splitlines(keepends=True) if line.endswith(b"\n")]
    return lines, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def faulty(workload: Any, folder: Path, n: int, mode: str) -> Callable[[Callable[[Any], None]], None]:
    def work(say: Callable[[Any], None]) -> None:
        SHIM.fault_arm(n, MODES[mode], os.fsencode(folder))
        try:
            workload.work(folder, lambda said: say({"said": said}))
            refused = None
        except (InputError, OSError) as error:  # one sentence at the door; anything else is a traceback
            refused = str(error)
        say({"hit": bool(SHIM.fault_disarm()), "refused": refused})

    return work


def look(workload: Any, folder: Path, said: list[Any], _say: Callable[[Any], None]) -> None:
    workload.check(folder, said)


def main(name: str, folder: Path) -> dict[str, Any]:
    workload = WORKLOADS[name]
    workload.load(folder / "origin")
    shutil.copytree(folder / "origin", folder / "before")
    workload.work(folder / "before", lambda _: None)  # what is imported now is not imported by every process
    workload.check(folder / "before", [])
    faults, wrong, expected = dict.fromkeys(MODES, 0), [], None
    for mode in MODES:
        for n in range(1, MOST):
            place = folder / "place"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder / "origin", place)
            lines, end = child(faulty(workload, place, n, mode))
            said = [line["said"] for line in lines if "said" in line]
            last = next((line for line in lines if "hit" in line), None)
            where = f"{name}, {mode}, operation {n}"
            wrong += [f"{where}: {line['traceback']}" for line in lines if "traceback" in line]
            if end not in (0, -signal.SIGKILL):
                wrong.append(f"{where}: ended with {end}")
            if last is not None and not last["hit"]:
                expected = said
                if last["refused"] is not None:
                    wrong.append(f"{where}: refused without a fault: {last['refused']}")
                break
            faults[mode] += 1
            found, end = child(functools.partial(look, workload, place, said))
            wrong += [f"{where}, after {said}: {line['traceback']}" for line in found]
            if end:
                wrong.append(f"{where}: the look afterwards ended with {end}")
    return {"faults": faults, "wrong": wrong, "said": expected}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
