"""`smoothcert attack` on a trained model: honest runs stand, a raised radius falls, and a stopped attack goes on."""

import json
from pathlib import Path

import pytest
import torch
from simulated_runs import read_run, rewrite
from typer.testing import CliRunner, Result

import smoothcert as sc
from smoothcert.cli import app
from smoothcert.models import Architecture, build, save

FEW = ("--steps", 4, "--draws", 16, "--votes", 200, "--radii", "0.25,0.5,1,2")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data, spec, noise = sc.datasets.load("digits", "train"), Architecture("lenet", 10, (1, 8, 8)), sc.Gaussian(0.25)
    network = build(spec, seed=0)
    x, y = data.tensors(range(len(data))), torch.from_numpy(data.labels.copy())
    sc.train(network, (x, y), sc.objectives.Gaussian(noise), epochs=4)
    path = tmp_path_factory.mktemp("model") / "net.safetensors"
    save(path, network, spec, {"noise": noise.describe()})
    return path


@pytest.fixture
def run(model: Path, tmp_path: Path) -> Path:
    options = ("--n", 500, "--limit", 6, "--workers", 1, "--out", tmp_path / "run")
    assert call("certify", "--model", model, "--data", "digits", *options).exit_code == 0
    return tmp_path / "run"


def test_an_honest_run_stands_and_both_curves_are_drawn(model: Path, run: Path, tmp_path: Path) -> None:
    done = call("attack", "--run", run, "--model", model, *FEW, "--figure", tmp_path / "curves.png")
    assert done.exit_code == 0, done.output
    assert "no attack succeeded below the certified radius" in done.stderr
    assert "left by pgd" in done.stdout
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    rows = json.loads(call("attack", "--run", run, "--model", model, *FEW, "--json").stdout)["rows"]
    assert [row["radius"] for row in rows] == [0, 0.25, 0.5, 1, 2]
    assert all(row["certified"]["count"] <= row["left_by_all"]["count"] for row in rows)
    assert rows[-1]["left_by_all"]["count"] < rows[0]["left_by_all"]["count"], "an attack of norm 2 gets through"


def test_a_raised_radius_is_refuted_loudly(model: Path, run: Path) -> None:
    config, forged = read_run(run)
    for record in forged:
        record["certificate"] |= {"radius": 3.0}
    rewrite(run, config, forged)
    done = call("attack", "--run", run, "--model", model, *FEW)
    assert done.exit_code == 1
    assert "FALSE CERTIFICATE: input 0 is certified" in done.stdout
    assert "more is a bug" in done.stderr


def test_a_stopped_attack_goes_on_and_another_is_refused(model: Path, run: Path) -> None:
    assert call("attack", "--run", run, "--model", model, *FEW).exit_code == 0
    file = run / "attack" / "records.jsonl"
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:4]) + lines[4][:20])  # killed in the middle of the fifth
    assert call("attack", "--run", run, "--model", model, *FEW).exit_code == 0
    assert file.read_bytes() == whole
    other = call("attack", "--run", run, "--model", model, *FEW, "--attack", "pgd")
    assert (other.exit_code, "was started" in other.stderr) == (2, True)
    assert call("analyze", run).exit_code == 0, "the run itself is as it was"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--attack", "fgsm"], "pgd, ddn, autoattack or foolbox:NAME"),
        (["--radii", "a"], "--radii must be numbers"),
        (["--figure", "curve.txt"], "must end in .png"),
        (["--limit", "0"], "--limit must be at least 1, got 0"),
        (["--limit", "-1"], "--limit must be at least 1, got -1"),
        (["--steps", "0"], "steps"),
        (["--votes", "0"], "votes must be at least 11, got 0"),
        (["--radii", "0.5,-1"], "radii of an attack must be positive numbers, got [-1.0, 0.5]"),
        (["--draws", "0"], "draws"),
    ],
)
def test_what_cannot_work_is_one_sentence(model: Path, run: Path, options: list[str], sentence: str) -> None:
    done = call("attack", "--run", run, "--model", model, *options)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (run / "attack").exists()


def test_another_model_is_refused(run: Path, tmp_path: Path) -> None:
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(tmp_path / "other.safetensors", build(spec, seed=1), spec, {})
    done = call("attack", "--run", run, "--model", tmp_path / "other.safetensors")
    assert (done.exit_code, "is not the one that" in done.stderr) == (2, True)
