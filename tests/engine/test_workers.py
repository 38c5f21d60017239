"""A worker owns its runner: it makes it, uses it and drops it, and no worker ends while a runner lives."""

import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from smoothcert.certify import Fixed
from smoothcert.engine import Smoothed, backends
from smoothcert.engine.backends import BACKENDS, Job, Prepared, installed
from smoothcert.engine.workers import Workers
from smoothcert.noise import Gaussian

X = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
QUICK = Fixed(n0=100, n=600)


class Runner:
    """Notes who makes, uses and drops it."""

    def __init__(self, events: list["Events"]) -> None:
        self.events = Events()
        events.append(self.events)
        weakref.finalize(self, self.events.dropped)

    def __call__(self, x: Tensor) -> Tensor:
        self.events.users.add(threading.get_ident())
        time.sleep(0.001)  # so that others come to their turn
        if self.events.fails:
            raise RuntimeError("a model that fails") from ValueError("and why")
        return x[:, :2].clone()


class Events:
    """What happened to one runner. It does not hold the runner."""

    fails = False

    def __init__(self) -> None:
        self.maker, self.users = threading.get_ident(), set[int]()
        self.dropper: int | None = None

    def dropped(self) -> None:
        self.dropper = threading.get_ident()


def check(events: list[Events], count: int) -> None:
    assert 1 <= len(events) <= count
    for one in events:
        assert one.users <= {one.maker}
        assert one.dropper == one.maker, "dropped by the thread that made it"
    assert len({one.maker for one in events}) == len(events)
    assert (threading.get_ident() in {one.maker for one in events}) == (count == 1)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Events]:
    """Of the runners of the workers; not of the probe of the model, which the caller makes, uses and drops."""
    found: list[Events] = []

    def prepare(_: Job) -> Prepared:
        return Prepared(lambda: Runner(found), {"name": "eager", "precision": "float32", "version": "0"})

    monkeypatch.setitem(BACKENDS, "eager", backends.Backend(prepare))
    monkeypatch.setattr("smoothcert.engine.smoothed.check_fixed", lambda *_: found.clear())
    return found


def smoothed(workers: int) -> Smoothed:
    return Smoothed(nn.Linear(5, 2), 2, Gaussian(0.5), workers=workers)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_runner_lives_and_dies_in_its_worker(workers: int, events: list[Events]) -> None:
    smoothed(workers).certify(X, QUICK)
    check(events, workers)
    assert workers == 1 or len(events) > 1, "several were at work"


@pytest.mark.parametrize("workers", [1, 3])
def test_also_where_the_answers_are_not_waited_for(workers: int, events: list[Events]) -> None:
    answers = smoothed(workers).certifying(X, QUICK)
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    check(events, workers)


def test_also_where_the_model_fails(events: list[Events], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Events, "fails", True)
    with pytest.raises(RuntimeError, match="a model that fails") as held:  # holds the traceback, too
        smoothed(3).certify(X, QUICK)
    check(events, 3)
    assert str(held.value.__cause__) == "and why"


def test_no_worker_ends_before_all_have_dropped_their_runners() -> None:
    """What one of them used may be torn down only while the threads are there whose parts it holds."""
    alive: list[int] = []

    class Slow:
        def __init__(self) -> None:
            workers.append(threading.current_thread())

        def __call__(self, x: Tensor) -> Tensor:
            together.wait()
            return x

        def __del__(self) -> None:
            time.sleep(0.1 * len(alive))
            alive.append(sum(worker.is_alive() for worker in workers))

    workers: list[threading.Thread] = []
    together = threading.Barrier(3)
    with Workers(Slow, 3, 1).working() as submit:
        for future in [submit(lambda run, x: run(x), X) for _ in range(3)]:
            future.result()
    assert alive == [3, 3, 3]
    assert not any(worker.is_alive() for worker in workers)


def test_work_that_was_not_begun_is_given_up() -> None:
    begun = []

    def work(_: object, number: int) -> None:
        begun.append(number)
        time.sleep(0.05)

    with Workers(lambda: torch.relu, 2, 1).working() as submit:
        futures = [submit(work, number) for number in range(100)]
        futures[0].result()
    assert len(begun) < 20
    assert all(future.done() for future in futures)


STRESS = """
import faulthandler, gc, sys, threading
faulthandler.enable()
import torch
from concurrent.futures import ThreadPoolExecutor
from torch import nn
from smoothcert.certify import Fixed
from smoothcert.engine import Smoothed
from smoothcert.ensembles import Consensus, SoftVoting
from smoothcert.noise import Gaussian

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()
members = [net] * 3  # three networks, one export
x, quick, over = torch.rand(3, 1, 8, 8), Fixed(n0=100, n=300), threading.Event()
gs = [
    Smoothed(kind(members), 3, Gaussian(0.25), backend="openvino", workers=workers)
    for kind in (SoftVoting, Consensus) for workers in (2, 3)
]
wanted = [[c.votes for c in g.certify(x, quick)] for g in gs]

gc.freeze()  # what was imported need not be looked at every time

def collect():
    while not over.wait(0.01):
        gc.collect()

def certify(turn):
    answers = gs[turn % 4].certifying(x, quick)
    if turn % 5 == 4:
        next(answers)  # and away with the rest
    else:
        assert [c.votes for _, c in sorted(answers, key=lambda pair: pair[0])] == wanted[turn % 4], "other votes"

collecting = threading.Thread(target=collect)
collecting.start()
try:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(certify, range(int(sys.argv[1]))))
finally:
    over.set()
print("whole")
"""


@pytest.mark.slow
@pytest.mark.skipif(not installed("openvino"), reason="openvino needs the extra openvino")
def test_many_short_runs_side_by_side_do_not_crash(tmp_path: Path) -> None:
    """Native networks made and dropped all the time, by threads that end, in processes that compete for the cores.

    Networks that the caller dropped, while the threads that had used them were still ending, crashed about one in forty
    runs of a busy machine. SMOOTHCERT_STRESS: how many runs of each process.
    """
    command = [sys.executable, "-c", STRESS, os.environ.get("SMOOTHCERT_STRESS", "10")]
    environment = os.environ | {"SMOOTHCERT_CACHE": str(tmp_path)}
    several = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [one.communicate(timeout=600) for one in several]
    assert [(one.returncode, out) for one, (out, _) in zip(several, said, strict=True)] == [(0, "whole\n")] * 3, said
