"""`certify --weights-per-input`: what is recorded, verified, predicted and refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from simulated_runs import read_run, write_run
from typer.testing import CliRunner, Result

from smoothcert import datasets
from smoothcert.cli import app
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members, their ensemble, and a run of it through a memory."""
    path = tmp_path_factory.mktemp("weights")
    spec = Architecture("lenet", 10, (1, 8, 8))
    for seed in range(2):
        save(path / f"net{seed}.safetensors", build(spec, seed=seed), spec, {"noise": Gaussian(0.5).describe()})
    nets = [word for seed in range(2) for word in ("--model", path / f"net{seed}.safetensors")]
    made = call("ensemble", "make", *nets, "--aggregation", "softmax-voting", "--out", path / "e.json")
    assert made.exit_code == 0, made.output
    done = certify(path, path / "run", "--memory", path / "regions.sqlite")
    assert done.exit_code == 0, done.output
    assert "claims nothing about neighbours" not in done.stderr
    return path


def certify(folder: Path, out: Path, *more: object, model: str = "e.json") -> Result:
    return call(
        "certify", "--model", folder / model, "--data", "digits", "--out", out, "--n", 200, "--limit", 3,
        "--workers", 1, "--weights-per-input", "variance", "--weights-copies", 2, *more,
    )  # fmt: skip


def test_what_is_recorded_and_that_it_holds(folder: Path) -> None:
    config, lines = read_run(folder / "run")
    settings = {"name": "variance", "draws": 10, "copies": 2, "share": 0.3, "spread": 0.01}
    assert config["classifier"]["own_weights"] == settings
    found = [line["certificate"]["weights"] for line in lines]
    assert len({tuple(weights) for weights in found}) > 1
    assert all(sum(weights) == pytest.approx(1) for weights in found)
    model, memory = folder / "e.json", folder / "regions.sqlite"
    done = call("verify", folder / "run", "--model", model, "--memory", memory, "--fresh", 100, "--pick", 1)
    assert done.exit_code == 0, done.output
    assert "3 of 3 records hold" in done.stdout
    page = folder / "page.html"
    assert call("report", folder / "run", "--out", page).exit_code == 0
    assert "--weights-per-input variance --weights-draws 10 --weights-copies 2" in page.read_text()


def test_other_weights_than_the_search_finds_are_noticed(folder: Path, tmp_path: Path) -> None:
    """Honest votes of other weights: how they were chosen is not as the run says."""
    assert certify(folder, tmp_path / "other", "--weights-draws", 3).exit_code == 0
    config, lines = read_run(tmp_path / "other")
    config["classifier"]["own_weights"]["draws"] = 10
    for line in lines:
        line["certificate"]["classifier"]["own_weights"]["draws"] = 10
    run = write_run(tmp_path / "run", config, lines)
    assert call("verify", run).exit_code == 0, "the claims follow from the votes"
    done = call("verify", run, "--model", folder / "e.json", "--json")
    assert {finding["check"] for finding in json.loads(done.stdout)["findings"]} == {"weights"}, done.output
    for weights in (None, [0.5, 0.6], [0.5, 0.25, 0.25]):
        changed = [json.loads(json.dumps(line)) for line in lines]
        changed[0]["certificate"] = {k: v for k, v in changed[0]["certificate"].items() if k != "weights"}
        changed[0]["certificate"] |= {} if weights is None else {"weights": weights}
        run = write_run(tmp_path / f"run{weights}", config, changed)
        (finding,) = json.loads(call("verify", run, "--json").stdout)["findings"]
        assert (finding["check"], finding["index"]) == ("weights", lines[0]["index"])


def test_resume_predict_and_scope(folder: Path, tmp_path: Path) -> None:
    done = certify(folder, tmp_path / "run", "--weights-per-input", "ratio", "--weights-draws", 20)
    assert "no copies; leave it out" in done.stderr
    alone = certify(folder, tmp_path / "run")
    assert (alone.exit_code, "claims nothing about neighbours" in alone.stderr) == (0, True)
    other = certify(folder, tmp_path / "run", "--weights-draws", 7)
    assert (other.exit_code, "10 draws for the weights; this command asks for 7" in other.stderr) == (2, True)
    np.save(tmp_path / "x.npy", datasets.load("digits", "test").inputs[:3])
    base = ("predict", "--model", folder / "e.json", "--run", tmp_path / "run", "--input", tmp_path / "x.npy")
    done = call(*base, "--n", 100, "--json")
    assert done.exit_code == 0, done.output
    _, lines = read_run(tmp_path / "run")
    recorded = {line["index"]: line["certificate"]["weights"] for line in lines}
    assert [json.loads(line)["weights"] for line in done.stdout.splitlines()] == [recorded[i] for i in range(3)]
    refused = call(*base, "--seed", 1)
    assert "whose seed decides the weights of each input" in refused.stderr


@pytest.mark.parametrize(
    ("options", "model", "words"),
    [
        (["--weights-per-input", "best"], "e.json", "the names are ratio, variance"),
        ([], "net0.safetensors", "make an ensemble with the aggregation softmax-voting"),
        (["--weights-share", 2], "e.json", "share must be in [0, 1]"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    folder: Path, tmp_path: Path, options: list[object], model: str, words: str
) -> None:
    done = certify(folder, tmp_path / "run", *options, model=model)
    assert (done.exit_code, words in " ".join(done.stderr.split())) == (2, True), done.output
    assert not (tmp_path / "run").exists()


def test_options_without_the_search(folder: Path, tmp_path: Path) -> None:
    done = call(
        "certify", "--model", folder / "e.json", "--data", "digits", "--out", tmp_path / "run", "--weights-draws", 3
    )
    assert (done.exit_code, "--weights-draws goes with --weights-per-input" in done.stderr) == (2, True)
