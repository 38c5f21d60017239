"""Pools that lose, reorder and ship their work: the certificates are those of one thread."""

import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import Compiled, MemberCalls, Smoothed, Threads
from smoothcert.engine.pools import Pool, Session, Work, WorkerRefusedError, WorkLostError
from smoothcert.engine.pools.base import MOST_LOSSES, refuse_another_identity
from smoothcert.engine.sigma import Bracket
from smoothcert.models.ensembles import Consensus
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed, Predict, Sequential
from smoothcert.stats import Hoeffding


class FlakySession(Session):
    """Works wait until there are several, are done in another order, and often lost: before or after they are done."""

    def __init__(self, inner: Session, luck: random.Random, losses: list[int]) -> None:
        self._inner, self._luck, self._losses = inner, luck, losses
        self._held: list[tuple[Work[Any], Future[Any]]] = []

    @property
    def workers(self) -> int:
        return self._inner.workers

    @property
    def in_flight(self) -> int:
        return self._luck.randrange(5)  # workers come and go: also none at all

    def submit(self, work: Work[Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._held.append((work, future))
        threading.Timer(0.002, self._serve).start()
        return future

    def _serve(self) -> None:
        held, self._held = self._held, []
        self._luck.shuffle(held)
        for work, future in held:
            lost = self._luck.random() < 0.4
            if lost and self._luck.random() < 0.5:
                future.set_exception(WorkLostError("its worker is gone"))
                self._losses.append(1)
                continue
            result = self._inner.submit(work).result()
            if lost:
                future.set_exception(WorkLostError("its worker is gone, and what it had done with it"))
                self._losses.append(1)
            else:
                future.set_result(result)

    def close(self) -> None:
        self._inner.close()


@dataclass(frozen=True)
class Flaky(Pool):
    """A pool of threads whose workers die all the time."""

    workers: int = 2
    luck: random.Random = field(default_factory=lambda: random.Random(0))
    losses: list[int] = field(default_factory=list)

    def open(self, compiled: Compiled) -> Session:
        return FlakySession(Threads(2).open(compiled), self.luck, self.losses)


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3)).eval()


X = torch.rand(7, 6, generator=torch.Generator().manual_seed(1))
PROCEDURES = [Fixed(n0=100, n=900), Sequential(radius=0.1, n=2000), Fixed(n0=50, n=500, bound=Hoeffding())]


@pytest.mark.parametrize("procedure", PROCEDURES, ids=["fixed", "sequential", "soft"])
def test_what_is_lost_is_handed_out_again(procedure: Any) -> None:
    pool = Flaky()
    one = Smoothed(network(), 3, Gaussian(0.4), seed=3, workers=1, batch_size=64)
    flaky = Smoothed(network(), 3, Gaussian(0.4), seed=3, pool=pool, batch_size=64)
    draws: list[int] = []
    found = sorted(flaky.certifying(X, procedure, on_draws=draws.append), key=lambda pair: pair[0])
    assert [answer for _, answer in found] == one.certify(X, procedure)
    assert flaky.predict(X, Predict(n=300)) == one.predict(X, Predict(n=300))
    assert len(pool.losses) > 5, "some was lost"
    assert sum(draws) == sum(answer.draws for _, answer in found), "and counted once"


def test_what_is_lost_is_not_counted_for_members() -> None:
    members = [network(), *(nn.Linear(6, 3) for _ in range(2))]
    calls = MemberCalls(), MemberCalls()
    for pool, one in zip((Flaky(), Threads(1)), calls, strict=True):
        Smoothed(Consensus(members), 3, Gaussian(0.4), pool=pool).certify(X, PROCEDURES[0], member_calls=one)
    assert calls[0].per_member == calls[1].per_member
    assert calls[0].per_member[0] == len(X) * 1000


def test_searches_for_sigma_go_through_the_pool() -> None:
    pool = Flaky()
    found = [
        Smoothed(network(), 3, Gaussian(0.4), search=Bracket(n=1000), pool=one).noises(X) for one in (pool, Threads(1))
    ]
    assert found[0] == found[1]
    assert pool.losses


class Killing(Session):
    """Every worker dies of this work."""

    workers, in_flight = 2, 3

    def submit(self, work: Work[Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(WorkLostError("killed by the system"))
        return future

    def close(self) -> None:
        pass


def test_work_that_kills_its_workers_is_given_up() -> None:
    with pytest.raises(InputError, match=rf"lost the worker of one batch {MOST_LOSSES} times \(killed by the system\)"):
        Killing().map([object()])  # type: ignore[list-item]


WORKER = """
import pickle, sys
import torch
if len(sys.argv) > 1:
    torch.set_float32_matmul_precision(sys.argv[1])
read, write = sys.stdin.buffer, sys.stdout.buffer

def answer(value):
    pickle.dump(value, write)
    write.flush()

try:
    compiled = pickle.load(read)
except Exception as error:
    answer(error)
    raise SystemExit
torch.set_num_threads(compiled.threads)
runner = compiled.executable.new_runner()
answer(None)
while True:
    answer(pickle.load(read).run(compiled, runner))
"""


class Worker:
    """A process that holds the model; all that goes there and back is pickled."""

    def __init__(self, compiled: bytes, *arguments: str) -> None:
        command = [sys.executable, "-c", WORKER, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        error = self.ask(compiled)
        if error is not None:
            raise error

    def ask(self, message: bytes) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(message)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (OSError, EOFError) as error:
            raise WorkLostError(f"process {self.process.pid} is gone") from error

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class ProcessSession(Session):
    """Each thread talks to a process of its own; a process that is gone is replaced."""

    workers, in_flight = 2, 3

    def __init__(self, compiled: bytes, kill: Callable[[Worker], None]) -> None:
        self._compiled, self._kill, self._own = compiled, kill, threading.local()
        self._all: list[Worker] = []
        self._threads = ThreadPoolExecutor(2)

    def submit(self, work: Work[Any]) -> Future[Any]:
        return self._threads.submit(self._ask, pickle.dumps(work))

    def _ask(self, message: bytes) -> Any:
        if getattr(self._own, "worker", None) is None:
            self._own.worker = Worker(self._compiled)
            self._all.append(self._own.worker)
        self._kill(self._own.worker)
        try:
            return self._own.worker.ask(message)
        except WorkLostError:
            self._own.worker = None
            raise

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        for worker in self._all:
            worker.end()


@dataclass(frozen=True)
class Processes(Pool):
    """What several machines would be."""

    workers: int = 2
    kill: Callable[[Worker], None] = lambda _: None

    def open(self, compiled: Compiled) -> Session:
        return ProcessSession(pickle.dumps(compiled), self.kill)


def claims(certificates: list[Certificate]) -> list[Any]:
    return [(c.label, c.radius, c.answers, c.classifier, c.noise, c.input_id) for c in certificates]


def test_pieces_go_to_other_processes_and_survive_them() -> None:
    """Pickled, self-contained: nothing is there but the compiled model, and one process is killed on the way."""
    turn = itertools.count()

    def kill(worker: Worker) -> None:
        if next(turn) == 4:
            os.kill(worker.process.pid, signal.SIGKILL)

    here = Smoothed(network(), 3, Gaussian(0.4, grid=1 / 255), seed=3, workers=1)
    there = Smoothed(network(), 3, Gaussian(0.4, grid=1 / 255), seed=3, pool=Processes(kill=kill))
    procedure = Sequential(radius=0.1, n=2000)
    assert claims(there.certify(X, procedure)) == claims(here.certify(X, procedure))
    assert next(turn) > 4, "it was killed"


def test_a_worker_that_runs_the_model_otherwise_is_refused() -> None:
    compiled = pickle.dumps(Smoothed(network(), 3, Gaussian(0.4)).compile((6,)))
    words = "this worker runs another classifier: its matmul is medium, that of the run is highest; take workers with"
    with pytest.raises(WorkerRefusedError, match=words):
        Worker(compiled, "medium")


def test_what_identifies_a_worker_is_named() -> None:
    about = {"cpu": "AVX512", "backend": {"name": "openvino-int8", "digest": "a"}}
    refuse_another_identity(about, about, "node 3")
    other = about | {"backend": {"name": "openvino-int8", "digest": "b"}}
    with pytest.raises(WorkerRefusedError, match=r"node 3 runs another classifier: its backend.digest is b, .* is a;"):
        refuse_another_identity(about, other, "node 3")


def test_pieces_carry_their_input_and_nothing_else() -> None:
    """An input is not pickled with the batch that it came from."""
    sizes: list[int] = []

    class Weighing(Session):
        workers, in_flight = 1, 1

        def __init__(self, inner: Session) -> None:
            self._inner = inner

        def submit(self, work: Work[Any]) -> Future[Any]:
            sizes.append(len(pickle.dumps(work)) // len(getattr(work, "pieces", (work,))))
            return self._inner.submit(pickle.loads(pickle.dumps(work)))

        def close(self) -> None:
            self._inner.close()

    @dataclass(frozen=True)
    class Scales(Pool):
        workers: int = 1

        def open(self, compiled: Compiled) -> Session:
            return Weighing(Threads(1).open(compiled))

    def model(x: Tensor) -> Tensor:
        return x.flatten(1)[:, :2]

    Smoothed(model, 2, Gaussian(0.5), pool=Scales()).certify(torch.rand(50, 3, 16, 16), Fixed(n0=100, n=300))
    assert max(sizes) < 3 * 16 * 16 * 4 + 3000


def test_threads_as_a_pool() -> None:
    one, two = (Smoothed(network(), 3, Gaussian(0.4), pool=Threads(n)).certify(X, PROCEDURES[0]) for n in (1, 2))
    assert one == two
    assert pickle.loads(pickle.dumps(Threads(2))) == Threads(2)
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InputError, match="workers must be at least 1"):
            Threads(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give pool=Threads"):
        Smoothed(network(), 3, Gaussian(0.4), workers=2, pool=Threads(2))
    with pytest.raises(InputError, match="pool must be a pool"):
        Smoothed(network(), 3, Gaussian(0.4), pool=2)  # type: ignore[arg-type]
