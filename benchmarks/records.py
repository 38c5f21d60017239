"""What reading a large run costs: `analyze` and resume, in seconds and memory.

    python benchmarks/records.py [--records 100000]

Makes real records of simulated votes (100 classes, the papers' n) and measures each command in a process of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from smoothcert.datasets import Dataset, Subset
from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian
from smoothcert.procedures import Ask, Fixed, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import Tally
from smoothcert.workflows.recording import certify_into, run_config

CLASSES, PROCEDURE = 100, Fixed(n0=100, n=100_000)

MEASURED = """
import json, resource, sys, time
start = time.perf_counter()
sys.path[:0] = json.loads(sys.argv[1])
{code}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
ANALYZE = """
from smoothcert.analysis import leaderboard, summarise
from smoothcert.present import markdown
summary = summarise(leaderboard([sys.argv[2]]).results)
assert len(markdown(summary)) > 100
"""
RESUME = """
from records import resume
resume(sys.argv[2])
"""


def data(count: int) -> Dataset:
    """As many small images, all different."""
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (count, 1, 4, 4), dtype=np.uint8)
    labels = rng.integers(0, CLASSES, count).astype(np.int64)
    return Dataset("simulated", "test", inputs, labels, CLASSES, (0, 1), tuple(map(str, range(CLASSES))))


def classifier() -> Smoothed:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, CLASSES))
    noise = Gaussian(0.25, grid=1 / 255)
    return Smoothed(model, CLASSES, noise, workers=1, input_range=(0, 1), input_shape=(1, 4, 4))


def make(path: Path, count: int) -> float:
    """A run of `count` inputs, of which the last is not recorded yet; seconds per record to write them."""
    smoothed, dataset, rng = classifier(), data(count), np.random.default_rng(1)
    run = Run.start(path, run_config(smoothed, PROCEDURE, dataset, Subset()))
    noise = smoothed.noise.for_inputs(dataset.tensors([0]))
    about = {"noise": noise.describe(), "classifier": smoothed.describe(), "stream": run.config.stream}
    start = time.perf_counter()
    with run.writing() as writer:
        for index in range(count - 1):
            shares = np.r_[1 - 0.6 * rng.random() ** 3, rng.dirichlet(np.full(5, 0.3))]
            shares = np.r_[shares[0], (1 - shares[0]) * shares[1:]]
            classes = rng.permutation(CLASSES)[: len(shares)]

            def draw(ask: Ask, shares: np.ndarray = shares, classes: np.ndarray = classes) -> Tally:
                votes = [0] * CLASSES
                for c, v in zip(classes, rng.multinomial(ask.n, shares), strict=True):
                    votes[c] = int(v)
                return Tally(tuple(votes))

            made = converse(PROCEDURE.certify(noise), draw)
            whole = dataclasses.replace(made, **about, input_id=f"{index:032x}")
            writer.append(Record.of(index, int(dataset.labels[index]), whole, float(rng.random())))
    return (time.perf_counter() - start) / count


def resume(path: str) -> None:
    """What `certify` does when it is called again: read, compare, certify the one that is missing."""
    count = len(json.loads((Path(path) / "run.json").read_text())["config"]["indices"])
    smoothed, dataset = classifier(), data(count)
    run = Run.start(path, run_config(smoothed, PROCEDURE, dataset, Subset()))
    before = len(run.records())
    certify_into(run, smoothed, PROCEDURE, dataset)
    assert (Path(path) / "records.jsonl").read_bytes().count(b"\n") == count == before + 1


def measured(code: str, path: Path) -> tuple[float, float, float]:
    """Seconds, seconds of a core, and megabytes of a process of its own, imports included."""
    words = [sys.executable, "-c", MEASURED.format(code=code), json.dumps([str(Path(__file__).parent)]), str(path)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    seconds, of_a_core, megabytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, of_a_core, megabytes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    count = parser.parse_args().records
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        each = make(path, count)
        size = (path / "records.jsonl").stat().st_size / count
        print(f"{count} records: {size:.0f} bytes and {1e6 * each:.0f} microseconds each to write")
        for name, code in (("analyze", ANALYZE), ("resume", RESUME)):
            seconds, of_a_core, megabytes = measured(code, path)
            print(f"{name}: {seconds:.1f} s ({of_a_core:.1f} s of a core), {megabytes:.0f} MB at most")


if __name__ == "__main__":
    main()
