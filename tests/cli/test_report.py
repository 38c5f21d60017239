"""`smoothcert report`: pictures where the data are at hand, a page in any case, one sentence for what cannot work."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_runs import read_run, write_run
from typer.testing import CliRunner, Result

from smoothcert.cli import app
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.safetensors"
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(path, build(spec, seed=0), spec, {"noise": Gaussian(0.5).describe()})
    return path


@pytest.fixture(scope="module")
def run(net: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(net, tmp_path_factory.mktemp("runs") / "run")


def certified(net: Path, out: Path, *more: object) -> Path:
    options = ["--model", net, "--data", "digits", "--out", out, "--limit", 4, "--workers", 1]
    draws = [] if "--stages" in more else ["--n", 200]
    done = call("certify", *options, *draws, *more)
    assert done.exit_code == 0, done.output
    return out


def certificates(run: Path) -> dict[int, Any]:
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    return {record["index"]: record["certificate"] for record in records}


def page(path: Path) -> dict[str, Any]:
    found = re.search(r'id="model">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)
    assert found
    model: dict[str, Any] = json.loads(found[1])
    return model


def test_a_run_of_packaged_data_has_its_images(run: Path, tmp_path: Path) -> None:
    done = call("report", run, "--out", tmp_path / "r.html", "--radii", "0,0.1")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "r.html").as_uri() in done.stdout
    assert done.stderr == ""
    model = page(tmp_path / "r.html")
    assert model["unit"] == "images"
    assert model["runs"][0]["records"]["picture"] == [0, 1, 2, 3]
    assert model["radii"] == [0, 0.1]
    assert model["command"] == f"smoothcert report {run} --out {tmp_path / 'r.html'} --radii 0,0.1"


def test_a_packaged_model_is_called_by_the_name_that_whoever_makes_the_run_again_needs(tmp_path: Path) -> None:
    options = ["--model", "zoo:mnist-0.50", "--data", "mnist500", "--limit", 2, "--n", 100, "--workers", 1]
    assert call("certify", *options, "--out", tmp_path / "run").exit_code == 0
    assert call("report", tmp_path / "run", "--out", tmp_path / "r.html").exit_code == 0
    (told,) = page(tmp_path / "r.html")["runs"]
    assert told["model"] == "zoo:mnist-0.50"
    assert "--model zoo:mnist-0.50" in told["command"]
    assert "--model zoo:mnist-0.50" in told["verify"]
    assert ["model.files", '["model.safetensors"]'] in told["settings"], "the configuration is that of the run"


def test_without_images(run: Path, tmp_path: Path) -> None:
    assert call("report", run, "--out", tmp_path / "r.html", "--no-images").exit_code == 0
    assert page(tmp_path / "r.html")["pictures"] == []


def test_a_log_needs_data_with_its_labels(tmp_path: Path) -> None:
    images = np.arange(2 * 8 * 8, dtype=np.uint8).reshape(2, 8, 8)
    np.savez(tmp_path / "mine.npz", x=images, y=np.array([0, 1]))
    np.savez(tmp_path / "other.npz", x=images, y=np.array([1, 0]))
    np.savez(tmp_path / "table.npz", x=np.zeros((2, 3)), y=np.array([0, 1]))
    log = tmp_path / "log.tsv"
    log.write_text("idx\tlabel\tpredict\tradius\n0\t0\t0\t0.5000\n1\t1\t1\t0.1234\n")
    for data, words, pictures in [
        ([], "no images of log: it does not say of which data it is; give --data", 0),
        (["--data", tmp_path / "mine.npz"], "", 2),
        (["--data", tmp_path / "other.npz"], "is not the one that was certified", 0),
        (["--data", tmp_path / "table.npz"], "no images of log: its data are no 8-bit images", 0),
    ]:
        done = call("report", log, "--out", tmp_path / "r.html", *data)
        assert done.exit_code == 0, done.output
        assert words in done.stderr
        assert done.stderr.count("\n") == bool(words), "one line"
        assert len(page(tmp_path / "r.html")["pictures"]) == pictures


def test_data_that_changed_are_not_shown(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    config, lines = read_run(run)
    for name, words in (("digits", "is not the one that was certified"), ("gone", "is not known by name; give --data")):
        config["data"] |= {"fingerprint": "0" * 64, "name": name}
        write_run(tmp_path / "run", config, lines)
        done = call("report", tmp_path / "run", "--out", tmp_path / "r.html")
        assert (done.exit_code, words in done.stderr) == (0, True), done.output
        assert page(tmp_path / "r.html")["pictures"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "report.pdf"], "--out must end in .html"),
        (["--radii", "a,b"], "--radii must be numbers"),
        (["--radii", "nan"], "radii must be non-negative finite numbers"),
        (["--data", "nowhere.npz"], "nowhere.npz"),
        (["--out", "no/such/folder/r.html"], "cannot be written"),
        (["missing-run"], "does not exist"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_nothing_is_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("report", run, *options)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--every", 3, "--start", 1, "--seed", 5, "--split", "train", "--alpha", 0.01],
        ["--noise", "uniform", "--sigma", 0.5],
        ["--norm", "linf", "--runner-up"],
        ["--grid", "off"],
        ["--grid", 100],
        ["--bound", "hoeffding", "--inverse-temperature", 4],
        ["--procedure", "sequential", "--radius", 0.1, "--radius", 0.2],
        ["--procedure", "staged", "--radius", 0.1, "--stages", "50,200"],
        ["--procedure", "budgeted", "--price", 0.1],
        ["--backend", "onnxruntime", "--batch-size", 64],
        # An ensemble: of two, which is the same network twice.
        [
            "--backend",
            "onnxruntime-int8",
            "--batch-size",
            64,
            "--calibration",
            "digits:test",
            "--model",
            "net.safetensors",
        ],
    ],
)
def test_the_printed_command_makes_the_same_run(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[object]
) -> None:
    """A run resumes under its own configuration only: the command, given the same folder, must have all of it."""
    monkeypatch.chdir(net.parent)
    made = certified(net, tmp_path / "run", *options)
    before = certificates(made)
    assert call("report", made, "--out", tmp_path / "r.html", "--no-images").exit_code == 0
    words = shlex.split(page(tmp_path / "r.html")["runs"][0]["command"])
    assert words[-2:] == ["--out", "run-again"]
    (made / "records.jsonl").unlink()
    done = call(*words[1:-1], made, "--workers", 1)
    assert done.exit_code == 0, done.output
    assert certificates(made) == before
