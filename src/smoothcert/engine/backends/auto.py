"""Which backend, batch and number of workers are the fastest here? Measured, in three seconds, and remembered."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK
from smoothcert.engine.backends import BackendTask, Executable, installed, packs, prepare

# All in float32. Not int8: it is noticeably another classifier, so somebody must want it. Not compile: it takes a
# minute to build, and the runtimes are as fast.
CANDIDATES = ("eager", "onnxruntime", "openvino")
SECONDS = 3.0
"""Of measuring, in all: what does not fit any more is not measured, and not chosen. Building networks comes beside."""
MEASUREMENTS = 5  # three backends, another batch, fewer workers

Say = Callable[[str], None]
_Key = tuple[Hashable, ...]
_chosen: dict[_Key, tuple[str, int, int]] = {}  # backend, rows and workers, for the life of this process
_lock = threading.Lock()


@dataclass(frozen=True)
class Choice:
    """What was the fastest."""

    task: BackendTask
    executable: Executable
    workers: int


def fastest(
    task: BackendTask, *, rows: int | None, workers: int | None, cores: int, say: Say = lambda _: None
) -> Choice:
    """The fastest backend; then, where they were not given, the better batch of 128, or 384 and more, and workers.

    `workers` is what was asked for; without, one worker per core is compared with half as many. What was found is
    remembered: the same model, in the same shape, is not measured again in this process. `say` hears how it goes.
    """
    key: _Key = (task.fingerprint, task.shape, task.rows, rows, workers, cores)
    with _lock:
        known = _chosen.get(key)
    if known is not None:
        name, chosen_rows, count = known
        chosen = task.with_rows(chosen_rows)
        return Choice(chosen, prepare(name, chosen), count)
    best = _Measuring(rows, say).best(task, workers, cores)
    with _lock:
        _chosen[key] = str(best.executable.description["name"]), best.task.rows, best.workers
    return best


class _Measuring:
    """Candidates one after the other, as long as there is time."""

    def __init__(self, rows: int | None, say: Say) -> None:
        self._rows, self._say, self._left = rows, say, SECONDS
        self._best: tuple[float, Choice] | None = None

    def best(self, task: BackendTask, workers: int | None, cores: int) -> Choice:
        for name in CANDIDATES:
            if installed(name):
                self._consider(name, task if self._rows is not None else task.with_rows(BLOCK), workers or cores)
        assert self._best is not None, "eager runs every model"
        choice = self._best[1]
        winner = str(choice.executable.description["name"])
        if self._rows is None:
            self._consider(winner, task.with_rows(max(3 * BLOCK, task.rows)), workers or cores)
        if workers is None and cores > 1:
            self._consider(winner, self._best[1].task, cores // 2)
        return self._best[1]

    def _consider(self, name: str, task: BackendTask, workers: int) -> None:
        if self._left <= 0 and self._best is not None:
            return
        self._say(f"measuring {name}, {task.rows} rows per call, {workers} workers")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a candidate that cannot run the model is only no candidate
            executable = prepare(name, task)
        if executable.description["name"] != name or (
            self._rows is None and task.rows > BLOCK and not packs(executable, task)
        ):
            return
        begin = time.perf_counter()
        rate = throughput(executable, task, workers, min(self._left, SECONDS / MEASUREMENTS) / 2)
        self._left -= time.perf_counter() - begin
        self._say(f"{name}, {task.rows} rows per call, {workers} workers: {rate:.0f} draws/s")
        if self._best is None or rate > self._best[0]:
            self._best = rate, Choice(task, executable, workers)


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
            for length in (0.0, seconds):  # the first round, of one call, warms up
                together.wait()
                begin, counts[number] = time.perf_counter(), 0
                while not counts[number] or time.perf_counter() < begin + length:
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
