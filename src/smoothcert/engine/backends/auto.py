"""Which backend, batch and number of workers are the fastest here? Measured, a second each."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK
from smoothcert.engine.backends import BackendTask, Executable, installed, packs, prepare

# All in float32. Not int8: it is noticeably another classifier, so somebody must want it. Not compile: it takes a
# minute to build, and the runtimes are as fast.
CANDIDATES = ("eager", "onnxruntime", "openvino")
SECONDS = 1.0


@dataclass(frozen=True)
class Choice:
    """What was the fastest."""

    task: BackendTask
    executable: Executable
    workers: int


def fastest(task: BackendTask, *, rows: int | None, workers: int | None, cores: int) -> Choice:
    """The fastest backend; then, where they were not given, the better batch of one or three blocks, and workers.

    `workers` is what was asked for; without, one worker per core is compared with half as many.
    """
    best: tuple[float, Choice] | None = None

    def consider(name: str, other: BackendTask, count: int) -> None:
        nonlocal best
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a candidate that cannot run the model is only no candidate
            executable = prepare(name, other)
        if executable.description["name"] != name or (
            rows is None and other.rows > BLOCK and not packs(executable, other)
        ):
            return
        rate = throughput(executable, other, count, SECONDS)
        if best is None or rate > best[0]:
            best = rate, Choice(other, executable, count)

    for name in CANDIDATES:
        if installed(name):
            consider(name, task if rows is not None else task.with_rows(BLOCK), workers or cores)
    assert best is not None, "eager runs every model, in one block"
    winner = str(best[1].executable.description["name"])
    if rows is None:
        consider(winner, task.with_rows(3 * BLOCK), workers or cores)
    if workers is None and cores > 1:
        consider(winner, best[1].task, cores // 2)
    return best[1]


def throughput(executable: Executable, task: BackendTask, workers: int, seconds: float) -> float:
    """Rows per second of all workers together, on ready noise: the most that certification can reach."""
    x, counts, before = task.probe(), [0] * workers, torch.get_num_threads()
    together, taken = threading.Barrier(workers), [0.0] * workers

    @torch.inference_mode()
    def work(number: int) -> None:
        torch.set_num_threads(1)
        try:
            run: Model | None = executable.new_runner()  # a runner lives and dies in one thread
            assert run is not None
            for length in (0.2 * seconds, seconds):  # the first round warms up
                together.wait()
                begin, counts[number] = time.perf_counter(), 0
                while time.perf_counter() < begin + length:
                    run(x.clone())
                    counts[number] += len(x)
                taken[number] = time.perf_counter() - begin
            run = None
            together.wait()  # and no thread ends before all runners are gone
        except threading.BrokenBarrierError:
            pass
        except BaseException:
            together.abort()
            raise

    with ThreadPoolExecutor(workers) as pool:
        done = [pool.submit(work, number) for number in range(workers)]
    torch.set_num_threads(before)
    for future in done:
        future.result()
    return sum(count / length for count, length in zip(counts, taken, strict=True))
