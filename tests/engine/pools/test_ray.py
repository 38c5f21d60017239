"""A Ray cluster of several nodes on this machine: the records of one thread, whatever becomes of the nodes."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.engine.pools import WorkerRefusedError, crew, crew_session, shipping
from smoothcert.models import Architecture, build, save
from smoothcert.models.ensembles import Consensus
from smoothcert.workflows.routing import RoutedModels

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'smoothcert[ray]'")
SMALL = 80 * 2**20  # bytes of an object store: the least that Ray takes
X = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(8) % 3
ROOM = {"num_cpus": 1, "object_store_memory": SMALL, "include_dashboard": False}


class Nodes:
    """A head that stays, and nodes that come and go; one worker finds room on each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args=ROOM)
        self.others: list[Any] = []

    def add(self, **more: Any) -> Any:
        self.others.append(self.cluster.add_node(**ROOM, **more))
        return self.others[-1]

    def kill(self, node: Any) -> None:
        self.others.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    environment = {
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # else they wait for whatever else this machine does
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        found = Nodes()
        found.add()
        ray.init(address=found.cluster.address, log_to_driver=False, logging_level="error")
        yield found
        crew_session.close_all()
        ray.shutdown()
        found.cluster.shutdown()


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 32), nn.Tanh(), nn.Linear(32, 3)).eval()


def lines(run: Any) -> list[dict[str, Any]]:
    """The records of a run by input, without times and the digests of the chain, which have them in."""
    found = [json.loads(line) for line in (run.path / "records.jsonl").read_text().splitlines()]
    kept = [
        {name: value for name, value in line.items() if name not in ("seconds", "previous", "digest")} for line in found
    ]
    return sorted(kept, key=lambda line: int(line["index"]))


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "fixed": lambda _: {"procedure": sc.Fixed(n0=100, n=900)},
    "sequential": lambda _: {"procedure": sc.Sequential(radius=0.1, n=3000)},
    "consensus": lambda _: {"model": Consensus([network(seed) for seed in range(3)])},
    "memory": lambda path: {"memory": path / "memory.sqlite"},
    "sigma per input": lambda _: {"search": sc.Bracket(n=500)},
    "routed": lambda _: {"model": RoutedModels(network(), {s: network(i) for i, s in enumerate((0.2, 0.4, 0.6))})},
}


@pytest.mark.parametrize("case", CASES)
def test_records_are_those_of_one_thread(nodes: Nodes, case: str, tmp_path: Path) -> None:
    runs = []
    for name, pool in (("one", sc.Threads(1)), ("ray", sc.Ray(workers=2))):
        (tmp_path / name).mkdir()
        given = {"model": network(), "procedure": sc.Fixed(n0=50, n=500), **CASES[case](tmp_path / name)}
        noise = sc.Gaussian(0.4, grid=1 / 255)
        runs.append(sc.certify(**given, data=(X, Y), noise=noise, out=tmp_path / name / "run", pool=pool))
    one, other = (lines(run) for run in runs)
    assert len(one) == len(X)
    assert one == other
    assert runs[1].verify(given["model"], pool=sc.Ray(workers=2), memory=given.get("memory")).holds


def actors() -> list[int]:
    """Processes of workers that are at work for us."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::RayWorker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_nodes_and_actors_are_killed_and_nothing_is_lost_or_doubled(nodes: Nodes) -> None:
    """SMOOTHCERT_STRESS: how many nodes are killed in the course of the run."""
    kills, luck = int(os.environ.get("SMOOTHCERT_STRESS", "1")), random.Random(0)
    procedure = sc.Fixed(n0=100, n=20_000 + 60_000 * (kills - 1))
    one, there = (sc.Smoothed(network(), 3, sc.Gaussian(0.4), seed=1, pool=pool) for pool in (sc.Threads(1), sc.Ray()))
    draws, total, killed = 0, len(X) * (procedure.n + 100), list[Any]()

    def on_draws(count: int) -> None:
        nonlocal draws
        draws += count
        if len(killed) < kills and draws > total * (len(killed) + 1) / (kills + 1):
            if not killed:
                os.kill(luck.choice(actors()), signal.SIGKILL)
            nodes.add()
            killed.append(luck.choice(nodes.others[:-1]))
            nodes.kill(killed[-1])

    found = sorted(there.certifying(X, procedure, on_draws=on_draws), key=lambda pair: pair[0])
    assert [answer for _, answer in found] == one.certify(X, procedure)
    assert len(killed) == kills
    assert draws == total


class Where:
    """A work that says where it was done."""

    def run(self, compiled: Any, runner: Any) -> str:
        time.sleep(0.05)  # long enough that the next one goes to somebody else
        return str(ray.get_runtime_context().get_node_id())


def test_a_node_that_joins_late_is_used(nodes: Nodes) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    compiled = sc.Smoothed(network(), 3, sc.Gaussian(0.4)).compile((1, 6, 6))
    with sc.Ray().open(compiled) as session:
        late, seen = nodes.add().node_id, set[str]()
        for _ in range(600):
            seen |= set(session.map([Where() for _ in range(8)]))
            if late in seen:
                break
        assert late in seen
        assert session.workers == len(nodes.others) + 1
        assert session.in_flight == 2 * session.workers


OTHER = torch.backends.cpu.get_cpu_capability() != "DEFAULT"


@pytest.mark.skipif(not OTHER, reason="this processor has no other way to add than the plainest one")
def test_a_node_of_another_kind_is_refused_by_name_and_the_others_go_on(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    other = nodes.add(env_vars={"ATEN_CPU_CAPABILITY": "default"})
    g, h = (sc.Smoothed(network(), 3, sc.Gaussian(0.4), pool=pool) for pool in (sc.Ray(), sc.Threads(1)))
    with caplog.at_level(logging.WARNING, logger="smoothcert.pools"):
        for _ in range(600):
            assert g.certify(X, sc.Fixed(n=500)) == h.certify(X, sc.Fixed(n=500))
            if caplog.messages:
                break
            time.sleep(0.1)
    nodes.kill(other)
    (said,) = caplog.messages
    assert f"(node {other.node_id[:8]}, process" in said
    assert "runs another classifier: its cpu is DEFAULT, that of the run is" in said
    assert said.endswith("; it is not used")


def test_other_software_is_refused_by_name(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "software", lambda: shipping.software() | {"smoothcert": "0.0.9"})
    with pytest.raises(WorkerRefusedError, match=r"the Ray worker on .* runs another classifier: its smoothcert is"):
        sc.Smoothed(network(), 3, sc.Gaussian(0.4), pool=sc.Ray()).certify(X)


def test_the_driver_is_killed_and_goes_on(nodes: Nodes, tmp_path: Path) -> None:
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(tmp_path / "net.safetensors", build(spec, seed=0), spec, {"noise": sc.Gaussian(0.25).describe()})
    words = ["certify", "--model", tmp_path / "net.safetensors", "--data", "digits", "--limit", "12", "--n", "5000"]
    cluster = ["--pool", "ray", "--address", nodes.cluster.address, "--workers", "1"]
    command = [sys.executable, "-m", "smoothcert", *words, "--out", tmp_path / "run", *cluster]
    records = tmp_path / "run" / "records.jsonl"
    crew_session.close_all()  # there is room for its worker
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for _ in range(3000):
        if driver.poll() is not None or (records.exists() and records.read_bytes().count(b"\n") >= 2):
            break
        time.sleep(0.02)
    driver.kill()
    _, said = driver.communicate()
    before = records.read_bytes().count(b"\n")
    assert 2 <= before < 12, said.decode()
    from typer.testing import CliRunner

    from smoothcert.cli import app

    again = CliRunner().invoke(app, [str(word) for word in (*words, "--out", tmp_path / "run", *cluster)])
    assert again.exit_code == 0, again.output
    here = CliRunner().invoke(app, [str(word) for word in (*words, "--out", tmp_path / "here", "--workers", "1")])
    assert here.exit_code == 0, here.output
    runs = [sc.Run.open(tmp_path / name) for name in ("run", "here")]
    assert lines(runs[0]) == lines(runs[1])
    assert len(lines(runs[0])) == 12


NETWORK = """
import torch
from smoothcert.models import register

@register("plugged for ray")
def plugged(*, num_classes, input_shape):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, num_classes))
"""


@pytest.mark.usefixtures("forgotten")
def test_members_are_trained_side_by_side(nodes: Nodes, tmp_path: Path) -> None:
    """As on this machine: the same weights, and the same words; here because this cluster is there already."""
    from smoothcert import models
    from smoothcert.core.plugins import load_plugin
    from smoothcert.workflows.observer import Observer
    from smoothcert.workflows.recipes import adapted
    from smoothcert.workflows.seeds import train_seeds

    crew_session.close_all()  # there is room
    (tmp_path / "network.py").write_text(NETWORK)
    load_plugin(tmp_path / "network.py")
    recipe, heard = adapted("mnist-lenet-gaussian-0.50-fast", ["architecture=plugged for ray"], epochs=1), list[str]()

    class Ear(Observer):
        def finished(self, task: str, *, note: str) -> None:
            heard.append(task)

    both = train_seeds(recipe, data="digits", out=tmp_path / "ray", seeds=[3, 5], pool=sc.Ray(), observer=Ear())
    assert sorted(heard) == ["seed 3", "seed 5"]
    assert [one.new for one in both] == [True, True]
    (alone,) = train_seeds(recipe, data="digits", out=tmp_path / "here", seed=5)
    there, here = (models.load(one.model).model.state_dict() for one in (both[1], alone))
    assert all(torch.allclose(there[name], here[name], atol=1e-6) for name in here)
    assert not list((tmp_path / "ray").glob(".shared*"))
    again = train_seeds(recipe, data="digits", out=tmp_path / "ray", seeds=[3, 5], pool=sc.Ray())
    assert [one.new for one in again] == [False, False]
    with pytest.raises(InputError, match="another configuration"):
        train_seeds(
            adapted("mnist-lenet-gaussian-0.50-fast", ["architecture=plugged for ray", "lr=0.3"], epochs=1),
            data="digits", out=tmp_path / "ray", seeds=[3], pool=sc.Ray(),
        )  # fmt: skip
    with pytest.raises(InputError, match="must be processes or ray"):
        train_seeds(recipe, data="digits", out=tmp_path / "no", pool=sc.Threads(2))


def test_functions_of_a_script_are_sent_along(nodes: Nodes) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :2]

    one, there = (sc.Smoothed(model, 2, sc.Gaussian(0.4), pool=pool) for pool in (sc.Threads(2), sc.Ray(workers=2)))
    assert there.certify(X, sc.Fixed(n=500)) == one.certify(X, sc.Fixed(n=500))


def test_plans_are_checked() -> None:
    with pytest.raises(InputError, match="workers must be at least 1"):
        sc.Ray(workers=0)
    with pytest.raises(InputError, match="gpus_per_worker must not be negative"):
        sc.Ray(gpus_per_worker=-1)
    with pytest.raises(InputError, match="gpus_per_worker needs a model on a GPU"):
        sc.Smoothed(network(), 3, sc.Gaussian(0.4), pool=sc.Ray(gpus_per_worker=0.5)).certify(X)
