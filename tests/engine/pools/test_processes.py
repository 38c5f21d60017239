"""Processes as a pool: the votes of one thread, whatever becomes of the processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.engine import MemberCalls
from smoothcert.engine.pools import WorkerRefusedError, crew, crew_session, shipping
from smoothcert.engine.pools.shipping import Reply, pack
from smoothcert.models.ensembles import Consensus
from smoothcert.stats import Hoeffding

POOL = sc.Processes(2)
X = torch.rand(7, 6, generator=torch.Generator().manual_seed(1))


def network(outputs: int = 3) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, outputs)).eval()


@pytest.fixture(autouse=True, scope="module")
def _ended_afterwards() -> Iterator[None]:
    yield
    crew_session.close_all()
    wait_until(lambda: not workers())


def wait_until(true: Callable[[], bool]) -> None:
    """Processes take their time."""
    for _ in range(1200):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def workers() -> list[Any]:
    return [one for one in multiprocessing.active_children() if one.name.startswith("smoothcert-worker-")]


def test_a_router_and_its_members_share_the_processes() -> None:
    """The same answers as in threads; an ensemble is among the members."""

    def routed(pool: Any) -> sc.Routed:
        members = {0.25: network(), 0.5: sc.SoftVoting([network(), network()])}
        return sc.Routed(network(2), members, noise=sc.Gaussian(0.5), seed=3, pool=pool)

    procedure = sc.Sequential(radius=0.05, n=1000)
    made, here = routed(POOL).certify(X, procedure), routed(sc.Threads(1)).certify(X, procedure)
    assert [(c.label, c.answers) for c in made] == [(c.label, c.answers) for c in here]
    assert [c.route and c.route.answers for c in made] == [c.route and c.route.answers for c in here]
    assert any(c.answers for c in made)


PROCEDURES = [sc.Fixed(n0=100, n=900), sc.Sequential(radius=0.1, n=2000), sc.Fixed(n0=50, n=500, bound=Hoeffding())]


@pytest.mark.parametrize("procedure", PROCEDURES, ids=["fixed", "sequential", "soft"])
def test_votes_are_those_of_one_thread(procedure: Any) -> None:
    here, there = (
        sc.Smoothed(network(), 3, sc.Gaussian(0.4, grid=1 / 255), seed=3, pool=pool) for pool in (sc.Threads(1), POOL)
    )
    assert there.certify(X, procedure) == here.certify(X, procedure)
    assert there.predict(X, sc.Predict(n=300)) == here.predict(X, sc.Predict(n=300))


def test_a_killed_process_is_replaced_and_nothing_is_lost_or_doubled() -> None:
    members = [network(), *(nn.Linear(6, 3) for _ in range(2))]
    calls, draws = (MemberCalls(), MemberCalls()), list[int]()
    one, two = (sc.Smoothed(Consensus(members), 3, sc.Gaussian(0.4), pool=pool) for pool in (sc.Threads(1), POOL))
    there = two.certifying(X, sc.Fixed(n0=100, n=20_000), on_draws=draws.append, member_calls=calls[1])
    found = [next(there)]
    killed = workers()[0]
    os.kill(killed.pid, signal.SIGKILL)
    found += there
    assert sorted(found, key=lambda pair: pair[0]) == list(
        enumerate(one.certify(X, sc.Fixed(n0=100, n=20_000), member_calls=calls[0]))
    )
    assert sum(draws) == len(X) * 20_100
    assert calls[0].per_member == calls[1].per_member
    two.certify(X, PROCEDURES[0])
    wait_until(lambda: len(workers()) == 2)
    assert killed.pid not in [one.pid for one in workers()]


def test_other_software_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "software", lambda: shipping.software() | {"smoothcert": "0.0.9 with sources abc"})
    g = sc.Smoothed(network(), 3, sc.Gaussian(0.4), pool=POOL)
    words = (
        r"^process \d+ runs another classifier: its smoothcert is .*, that of the run is 0.0.9 with sources abc; take"
    )
    for _ in range(2):  # also of those who ask again
        with pytest.raises(WorkerRefusedError, match=words):
            g.certify(X, PROCEDURES[0])
    monkeypatch.undo()
    again = sc.Smoothed(network(), 3, sc.Gaussian(0.4), pool=POOL)
    assert again.certify(X, PROCEDURES[0])[0].votes, "the processes are as good as before for another model"


def test_what_a_model_raises_is_raised_here() -> None:
    g = sc.Smoothed(network(), 4, sc.Gaussian(0.4), pool=POOL)  # of 3 classes
    with pytest.raises(InputError, match=r"must return scores of shape \(batch, num_classes\) = \(128, 4\)"):
        g.certify(X, PROCEDURES[0])


def test_settings_of_torch_go_along() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        found = sc.Smoothed(network(), 3, sc.Gaussian(0.4), pool=POOL).certify(X, PROCEDURES[0])
    finally:
        torch.set_float32_matmul_precision(before)
    assert found[0].classifier["matmul"] == "medium"


def test_what_cannot_be_sent_is_said() -> None:
    with pytest.raises(InputError, match=r"cannot be sent to another process .*; define it in a module"):
        sc.Smoothed(lambda x: x[:, :2], 2, sc.Gaussian(0.4), pool=POOL).certify(X, PROCEDURES[0])


def test_plans_are_checked() -> None:
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InputError, match="workers must be at least 1"):
            sc.Processes(wrong)  # type: ignore[arg-type]
    for share in (0, -1, 2, float("nan")):
        with pytest.raises(InputError, match="gpus_per_worker of processes must be above 0"):
            sc.Processes(gpus_per_worker=share)
    with pytest.raises(InputError, match="gpus_per_worker needs a model on a GPU, got one on cpu"):
        sc.Smoothed(network(), 3, sc.Gaussian(0.4), pool=sc.Processes(gpus_per_worker=0.5)).certify(X)


def test_what_is_packed_comes_back() -> None:
    x = torch.rand(2, 3)
    for value in (x, x.t(), x[0, 0], torch.tensor([1, 2]), torch.tensor(True), torch.rand(3).bfloat16()):
        again = Reply.unpacked(pack(Reply(value))).result
        assert torch.equal(again, value)
        assert (again.dtype, again.shape) == (value.dtype, value.shape)
    assert len(pack([x] * 50)) < len(pack(x)) + 200, "one input is sent once, however many pieces it has"

    class UnsendableError(Exception):
        pass

    error = Reply.unpacked(Reply(error=UnsendableError("what it said")).packed()).error
    assert str(error) == "UnsendableError: what it said"
    assert "cannot be read" in str(Reply.unpacked(b"nothing").error)


DRIVER = """
import multiprocessing, os, signal, sys
import torch
import smoothcert as sc

if __name__ == "__main__":
    g = sc.Smoothed(torch.nn.Linear(6, 3), 3, sc.Gaussian(0.4), pool=sc.Processes(1))
    g.predict(torch.rand(1, 6), sc.Predict(n=100))
    print(*(one.pid for one in multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, tmp_path / "driver.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    (pid,) = map(int, done.stdout.split())
    wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


UNGUARDED = """
import torch
import smoothcert as sc
sc.Smoothed(torch.nn.Linear(6, 3), 3, sc.Gaussian(0.4), pool=sc.Processes(1)).predict(torch.rand(1, 6))
"""


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert "InputError: no worker could be started: its process ended with status 1" in done.stderr
    assert 'put what the script does under if __name__ == "__main__":' in done.stderr


def test_the_command_line_takes_processes(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from smoothcert.cli import app
    from smoothcert.models import Architecture, build, save

    spec = Architecture("lenet", 10, (1, 8, 8))
    save(tmp_path / "net.safetensors", build(spec, seed=0), spec, {"noise": sc.Gaussian(0.25).describe()})
    model = ("--model", tmp_path / "net.safetensors")

    def call(*words: object) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words])

    for pool in ("processes", "threads"):
        done = call("certify", *model, "--data", "digits", "--limit", 4, "--n", 500, "--out", tmp_path / pool,
                    "--pool", pool, "--workers", 2)  # fmt: skip
        assert done.exit_code == 0, done.output
    runs = [sc.Run.open(tmp_path / pool) for pool in ("processes", "threads")]
    one, two = ({c.input_id: c for c in run.certificates()} for run in runs)
    assert one == two
    done = call("verify", tmp_path / "threads", *model, "--pool", "processes", "--workers", 2)
    assert (done.exit_code, done.stdout.startswith("4 of 4 records hold")) == (0, True), done.output
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), dtype=np.float32))
    words = ("predict", *model, "--input", tmp_path / "x.npy", "--n", 100, "--workers", 2, "--json")
    assert call(*words, "--pool", "processes").stdout == call(*words).stdout != ""
    for more, sentence in (
        (("--pool", "cloud"), "--pool must be threads, processes or ray, got 'cloud'"),
        (("--address", "auto"), "--address is that of a Ray cluster; give --pool ray"),
        (("--gpus-per-worker", 1), "--gpus-per-worker goes with --pool processes or ray"),
    ):
        refused = call(*words, *more)
        assert (refused.exit_code, sentence in refused.stderr) == (2, True), refused.output
