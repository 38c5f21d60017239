"""A noise from a file outside the package: certified, re-analysed, verified at all levels, reported, remembered."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest
from simulated_runs import read_run, write_run

from smoothcert.analysis import Settings, read, reanalyse, summarise
from smoothcert.attack.campaign import AttackCampaign
from smoothcert.audit import audit_run
from smoothcert.audit.fresh import draw_fresh
from smoothcert.audit.rebuild import rebuild
from smoothcert.audit.redraw import redraw
from smoothcert.core.errors import InputError
from smoothcert.core.plugins import load_plugin
from smoothcert.datasets import Subset, load
from smoothcert.engine import Smoothed
from smoothcert.engine.sigma import Bracket
from smoothcert.memory import Memory
from smoothcert.models import Architecture, build
from smoothcert.noise import NOISES, Noise
from smoothcert.present.figures.draws import draws_by_votes
from smoothcert.present.figures.sigmas import strengths
from smoothcert.present.report.reproduce import certify_command
from smoothcert.procedures import Fixed, Sequential
from smoothcert.runs import ModelConfig, Record, Run
from smoothcert.training.objectives import MACER
from smoothcert.workflows.recording import certify_into, run_config

DATA, INPUTS, SEED = load("digits"), 4, 3
FILE = Path(__file__).parents[1] / "plugins" / "my_noise.py"


@pytest.fixture(scope="module")
def kind(forgotten: None) -> type[Any]:
    """The outside noise."""
    load_plugin(FILE)
    return NOISES.find("logistic")


def network() -> Any:
    return build(Architecture("lenet", 10, (1, 8, 8)), seed=0)


def smoothed(noise: Noise, seed: int = SEED, **more: Any) -> Smoothed:
    return Smoothed(network(), 10, noise, seed=seed, workers=1, **more)


def made(path: Path, of: Smoothed, procedure: Fixed | Sequential) -> Run:
    run = Run.start(path, run_config(of, procedure, DATA, Subset(every=7, limit=INPUTS), ModelConfig(files=("net",))))
    certify_into(run, of, procedure, DATA)
    return run


@pytest.mark.parametrize("procedure", [Fixed(n=500), Sequential(radius=[0.05, 0.1], n=1000)], ids=lambda p: p.name)
def test_it_is_verified_at_all_levels(kind: type[Any], tmp_path: Path, procedure: Fixed | Sequential) -> None:
    noise = kind(0.2)
    run = made(tmp_path / "run", smoothed(noise), procedure)
    audit = audit_run(run)
    assert (audit.findings, audit.holding()) == ((), INPUTS)
    assert max(record.radius for record in audit.records) > 0
    again = redraw(run, audit.records, rebuild(run, network(), 10, input_shape=(1, 8, 8), workers=1), DATA)
    assert (again.findings, again.moved, again.otherwise) == ((), 0, ())
    other = rebuild(run, network(), 10, input_shape=(1, 8, 8), seed=SEED + 1, workers=1)
    assert draw_fresh(run, audit.records, other, DATA, 500) == ()


def test_a_changed_strength_is_found(kind: type[Any], tmp_path: Path) -> None:
    made(tmp_path / "run", smoothed(kind(0.2)), Fixed(n=500))
    config, lines = read_run(tmp_path / "run")
    assert config["noise"]["spread"] == 0.2
    config["noise"]["spread"] = 0.4
    write_run(tmp_path / "run", config, lines)
    assert {f.check for f in audit_run(Run.open(tmp_path / "run")).findings} == {"noise"}
    for line in lines:
        line["certificate"]["noise"]["spread"] = 0.4
    write_run(tmp_path / "run", config, lines)
    assert {f.check for f in audit_run(Run.open(tmp_path / "run")).findings} == {"radius"}


def test_it_is_analysed_and_reported(kind: type[Any], tmp_path: Path) -> None:
    run = made(tmp_path / "run", smoothed(kind(0.2)), Fixed(n=500))
    result = read(run.path)
    assert reanalyse(result, alpha=0.001).records == result.records
    safer = reanalyse(result, alpha=1e-6)
    assert sum(r.radius for r in safer.records) < sum(r.radius for r in result.records)
    (row,) = summarise([result]).rows
    assert (row.noise, row.norm) == ("logistic spread=0.2", "l1")
    assert strengths(result) == [0.2] * INPUTS
    words = shlex.split(certify_command("run", Settings.of(run.config)))
    assert words[words.index("--noise") :][:4] == ["--noise", "logistic", "--strength", "0.2"]
    assert "--grid" not in words
    decided = made(tmp_path / "decided", smoothed(kind(0.2)), Sequential(radius=0.1, n=1000))
    assert draws_by_votes([read(decided.path)], tmp_path / "draws.png").stat().st_size > 0


def test_a_memory_is_of_one_noise(kind: type[Any], tmp_path: Path) -> None:
    x = DATA.tensors([0])
    with Memory(str(tmp_path / "memory.sqlite")) as memory:
        (first,) = smoothed(kind(0.2), memory=memory).certify(x, Fixed(n=500))
        assert not first.abstained
        assert memory.info()["noise"] == {"name": "logistic", "norm": "l1", "arithmetic": "float32"}
        with pytest.raises(InputError, match=r"belongs to another noise \(noise.name is logistic"):
            smoothed(NOISES["laplace"](0.2), memory=memory).certify(x, Fixed(n=500))  # type: ignore[call-arg]


def test_what_it_does_not_say_of_itself_is_refused(kind: type[Any]) -> None:
    with pytest.raises(InputError, match="strength of logistic noise cannot be chosen per input, only that of g"):
        smoothed(kind(0.2), search=Bracket())
    with pytest.raises(InputError, match="noise of MACER must have a differentiable"):
        MACER(kind(0.2))
    with pytest.raises(InputError, match="the run has logistic noise and l1 radii"):
        AttackCampaign(smoothed(kind(0.2)), smoothed(kind(0.2), SEED + 1))
    assert kind(0.2).gridless() == kind(0.2)
    assert kind(0.2).levels is None


def test_a_strength_per_input_once_it_says_that_it_is_additive(
    kind: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "additive", True)
    search = Bracket(steps=5, draws=32, n=500)
    run = made(tmp_path / "run", smoothed(kind(0.2), search=search), Fixed(n=500))
    audit = audit_run(run)
    assert audit.findings == ()
    again = redraw(run, audit.records, rebuild(run, network(), 10, input_shape=(1, 8, 8), workers=1), DATA)
    assert again.findings == ()
    (row,) = summarise([read(run.path)]).rows
    assert row.noise == "logistic spread per input"
    record = audit.records[0]
    assert record.certificate is not None
    found = record.certificate.noise["spread"]
    moved = dataclasses.replace(record.certificate, noise=dict(record.certificate.noise) | {"spread": 1.01 * found})
    with run.writing() as writer:
        writer.append(Record.of(record.index, record.label, moved, 0.1))
    assert "spread" in {f.check for f in audit_run(run).findings}
