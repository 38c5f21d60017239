"""Which backend, batch and number of workers are the fastest here? Measured, a second each."""

from __future__ import annotations

import dataclasses
import time
import warnings

import torch

from smoothcert.architectures.modules import Model
from smoothcert.engine.backends import Job, Prepared, installed, prepare, same_votes
from smoothcert.engine.workers import Workers
from smoothcert.noise.streams import BLOCK

# All in float32. Not int8: it is noticeably another classifier, so somebody must want it. Not compile: it takes a
# minute to build, and the runtimes are as fast.
CANDIDATES = ("eager", "onnxruntime", "openvino")
SECONDS = 1.0


def fastest(job: Job, *, rows: int | None, workers: int | None) -> tuple[Job, Prepared]:
    """The fastest backend; then, where they were not given, the better batch of one or three blocks, and workers."""
    best: tuple[float, Job, Prepared] | None = None

    def consider(name: str, other: Job) -> str | None:
        nonlocal best
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a candidate that cannot run the model is only no candidate
            prepared = prepare(name, other)
        if prepared.description["name"] != name:  # it cannot run the model
            return None
        if rows is None and other.rows > BLOCK and not same_votes(prepared, other):
            return None
        rate = throughput(prepared, other, SECONDS)
        if best is None or rate > best[0]:
            best = rate, other, prepared
        return name

    for name in CANDIDATES:
        if installed(name):
            consider(name, job if rows is not None else job.with_rows(BLOCK))
    assert best is not None, "eager runs every model, in one block"
    winner = str(best[2].description["name"])
    if rows is None:
        consider(winner, job.with_rows(3 * BLOCK))
    if workers is None and job.workers > 1:
        consider(winner, dataclasses.replace(best[1], workers=job.workers // 2))
    return best[1], best[2]


def throughput(prepared: Prepared, job: Job, seconds: float) -> float:
    """Rows per second of all workers together, on ready noise: the most that certification can reach."""
    x = job.probe()

    @torch.inference_mode()
    def work(run: Model, rest: float) -> float:
        rows, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < rest:
            run(x.clone())
            rows += len(x)
        return rows / (time.perf_counter() - begin)

    with Workers(prepared.new_runner, job.workers, 1).working() as submit:
        for rest in (0.2 * seconds, seconds):  # the first round warms up
            rounds = [submit(work, rest) for _ in range(job.workers)]
            rates: list[float] = [future.result() for future in rounds]
    return sum(rates)
