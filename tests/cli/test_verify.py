"""`smoothcert verify`, and `predict --run`: what holds, what does not, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from simulated_runs import read_run, rewrite, write_run
from typer.testing import CliRunner, Result

from smoothcert.cli import app
from smoothcert.datasets import load
from smoothcert.engine.backends import installed
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models and a run of the first."""
    path = tmp_path_factory.mktemp("verify")
    spec = Architecture("lenet", 10, (1, 8, 8))
    for seed in (0, 1):
        save(path / f"net{seed}.safetensors", build(spec, seed=seed), spec, {"noise": Gaussian(0.25).describe()})
    done = call(
        "certify", "--model", path / "net0.safetensors", "--data", "digits", "--out", path / "run", "--n", 300,
        "--limit", 4, "--workers", 1,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    shutil.copytree(folder / "run", tmp_path / "run")
    return tmp_path / "run"


def digits(path: Path) -> Path:
    """The packaged digits as a file of one's own."""
    train, test = load("digits", "train"), load("digits", "test")
    np.savez(path, x_train=train.inputs, y_train=train.labels, x_test=test.inputs, y_test=test.labels)
    return path


def test_an_honest_run_holds(folder: Path, run: Path) -> None:
    before = {path: path.read_bytes() for path in run.iterdir()}
    done = call("verify", run)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("4 of 4 records hold: level 1 (votes, bounds, boundaries, rounding)")
    assert "to the last bit" in done.stdout
    done = call("verify", run, "--model", folder / "net0.safetensors", "--share", 0.5, "--fresh", 200, "--pick", 7)
    assert done.exit_code == 0, done.output
    assert "--pick 7" in done.stdout
    assert "level 2 (800 draws of 2 inputs made again), level 3 (200 fresh draws for each of 2 inputs)" in done.stdout
    assert {path: path.read_bytes() for path in run.iterdir()} == before, "nothing is written"


def test_what_does_not_hold_is_a_table_and_status_1(folder: Path, run: Path) -> None:
    config, lines = read_run(run)
    lines[0]["certificate"]["alpha"] = 0.5
    rewrite(run, config, [*lines[:3], lines[1]])
    done = call("verify", run)
    assert done.exit_code == 1, done.output
    for words in ("alpha is recorded as 0.5", "repeats input", "planned and not recorded", "1 of 4 records hold"):
        assert words in done.stdout
    content = json.loads(call("verify", run, "--json").stdout)
    assert {finding["check"] for finding in content["findings"]} == {"alpha", "repeated", "missing"}
    assert (content["planned"], content["recorded"], content["holding"], content["pick"]) == (4, 3, 1, None)
    done = call("verify", run, "--model", folder / "net0.safetensors", "--json")
    assert (done.exit_code, len(json.loads(done.stdout)["levels"])) == (1, 2)


def test_another_truth_is_found(folder: Path, run: Path) -> None:
    config, lines = read_run(run)
    record = lines[0]
    record["label"] = (record["label"] + 1) % 10
    rewrite(run, config, lines)
    done = call("verify", run)
    assert (done.exit_code, "planned with" in done.stdout) == (1, True), done.output
    config["labels"][config["indices"].index(record["index"])] = record["label"]
    rewrite(run, config, lines)
    assert call("verify", run).exit_code == 0
    done = call("verify", run, "--model", folder / "net0.safetensors")
    assert (done.exit_code, "in the data it is" in done.stdout) == (1, True), done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "net1.safetensors"], "its fingerprint is"),
        (["--model", "nowhere.safetensors"], "nowhere.safetensors"),
        (["--model", "net0.safetensors", "--data", "mnist5k"], "are not those that"),
        (["--model", "net0.safetensors", "--share", 0], "share must be above 0"),
        (["--model", "net0.safetensors", "--fresh", 3], "n must be at least 10"),
        (["--model", "net0.safetensors", "--fresh", 200, "--pick", 0], "must not be the run's, 0"),
        (["--fresh", 200], "give --model"),
        (["--share", 0.5], "give --model"),
        (["--calibration", "digits"], "give --model"),
        (["--model", "net0.safetensors", "--calibration", "digits"], "--calibration goes with an int8 backend"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(folder: Path, run: Path, options: list[object], words: str) -> None:
    given = [folder / str(o) if str(o).endswith(".safetensors") else o for o in options]
    done = call("verify", run, *given)
    assert (done.exit_code, words in done.stderr, done.stdout) == (2, True, ""), done.output
    assert call("verify", run / "nowhere").exit_code == 2


def test_data_without_a_name_must_be_given(folder: Path, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x=images, y=np.arange(3))
    model, out = folder / "net0.safetensors", tmp_path / "run"
    assert call("certify", "--model", model, "--data", tmp_path / "own.npz", "--out", out, "--n", 100).exit_code == 0
    done = call("verify", out, "--model", model)
    assert (done.exit_code, "give --data PATH" in done.stderr) == (2, True), done.output
    assert call("verify", out, "--model", model, "--data", tmp_path / "own.npz").exit_code == 0


def test_data_called_like_a_known_set_may_be_given_by_path(folder: Path, tmp_path: Path) -> None:
    own = digits(tmp_path / "mnist.npz")
    model, out = folder / "net0.safetensors", tmp_path / "run"
    done = call("certify", "--model", model, "--data", own, "--out", out, "--n", 100, "--limit", 2, "--workers", 1)
    assert done.exit_code == 0, done.output
    done = call("verify", out, "--model", model, "--data-root", tmp_path)
    assert (done.exit_code, "or give --data PATH" in done.stderr) == (2, True), done.output
    assert call("verify", out, "--model", model, "--data", own).exit_code == 0


@pytest.mark.skipif(not installed("onnxruntime-int8"), reason="onnxruntime-int8 needs the extra onnx")
def test_an_int8_run_is_checked_after_its_data_moved(folder: Path, tmp_path: Path) -> None:
    """The run names its calibration without a folder; what it was is known by its digest."""
    old, model, out = digits(tmp_path / "own.npz"), folder / "net0.safetensors", tmp_path / "run"
    options = ("--n", 100, "--limit", 2, "--workers", 1, "--backend", "onnxruntime-int8")
    assert call("certify", "--model", model, "--data", old, "--out", out, *options).exit_code == 0
    text = (out / "run.json").read_text()
    assert json.loads(text)["config"]["model"]["calibration"] == "own:train"
    assert str(tmp_path) not in text
    (tmp_path / "moved").mkdir()
    new = old.rename(tmp_path / "moved" / "own.npz")
    verify = ("verify", out, "--model", model, "--workers", 1)
    attack = ("attack", "--run", out, "--model", model, "--steps", 1, "--draws", 4, "--votes", 100, "--workers", 1)
    for command in (verify, attack):
        done = call(*command, "--data", new)
        assert done.exit_code == 0, done.output
        assert call(*command, "--data", new, "--calibration", f"{new}:train").exit_code == 0
        done = call(*command, "--data", new, "--calibration", "digits:test")
        assert (done.exit_code, "backend.calibration" in done.stderr) == (2, True), done.output
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8), dtype=np.float32))
    asked = ("predict", "--run", out, "--model", model, "--input", tmp_path / "x.npy", "--n", 100)
    assert call(*asked, "--calibration", new).exit_code == 0
    done = call(*asked)
    assert (done.exit_code, "or give --calibration" in done.stderr) == (2, True), done.output
    assert call("certify", "--model", model, "--data", new, "--out", out, *options).exit_code == 0, "it resumes"


def test_predict_answers_as_the_certified_classifier(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (1, 8, 8), dtype=np.uint8))
    base = ["predict", "--input", tmp_path / "x.npy", "--n", 100, "--json", "--run", folder / "run"]
    done = call(*base, "--model", folder / "net0.safetensors")
    assert done.exit_code == 0, done.output
    answer, config = json.loads(done.stdout), json.loads((folder / "run" / "run.json").read_text())["config"]
    assert (answer["noise"], answer["classifier"]) == (config["noise"], config["classifier"])
    assert answer["seed"] == 0
    assert json.loads(call(*base, "--model", folder / "net0.safetensors", "--seed", 5).stdout)["seed"] == 5
    done = call(*base, "--model", folder / "net1.safetensors")
    assert (done.exit_code, "the model is not the one" in done.stderr) == (2, True), done.output
    for option in (["--sigma", 0.25], ["--noise", "gaussian"], ["--batch-size", 64]):
        done = call(*base, "--model", folder / "net0.safetensors", *option)
        assert (done.exit_code, f"{option[0]} does not go with --run" in done.stderr) == (2, True), done.output


def test_a_soft_run_is_neither_predicted_nor_attacked_as_a_hard_one(folder: Path, tmp_path: Path) -> None:
    """The highest mean score is certified there; the majority vote is another classifier."""
    model, soft = folder / "net0.safetensors", tmp_path / "soft"
    options = ("--n", 300, "--limit", 2, "--workers", 1, "--bound", "hoeffding")
    assert call("certify", "--model", model, "--data", "digits", "--out", soft, *options).exit_code == 0
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8), dtype=np.float32))
    asked = call("predict", "--model", model, "--run", soft, "--input", tmp_path / "x.npy")
    attacked = call("attack", "--model", model, "--run", soft)
    for done in (asked, attacked):
        assert (done.exit_code, "certified the soft classifier" in done.stderr) == (2, True)
    assert call("verify", soft, "--model", model, "--workers", 1).exit_code == 0, "its votes can still be drawn again"


def test_without_a_procedure_no_record_is_said_to_hold(folder: Path, run: Path) -> None:
    config, lines = read_run(run)
    rewrite(run, config | {"procedure": {"name": "magic"}}, lines)
    done = call("verify", run)
    assert (done.exit_code, "0 of 4 records hold" in done.stdout) == (1, True)
    again = call("verify", run, "--model", folder / "net0.safetensors", "--workers", 1)
    assert (again.exit_code, "magic" in again.stderr) == (2, True)
    write_run(run, {name: value for name, value in config.items() if name != "procedure"}, lines)
    done = call("verify", run)
    assert (done.exit_code, "does not name procedure" in done.stderr) == (2, True)


def test_a_line_changed_by_hand_is_noticed_by_every_command(folder: Path, run: Path, tmp_path: Path) -> None:
    """Nobody made the digests again: a radius raised by 1 used to pass analyze, compare and report."""
    file = run / "records.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"radius":0', b'"radius":1', 1))
    for command in (
        ("analyze", run),
        ("compare", run, folder / "run"),
        ("report", run, "--out", tmp_path / "r.html"),
        ("attack", "--run", run, "--model", folder / "net0.safetensors"),
    ):
        done = call(*command)
        assert (done.exit_code, "was changed after it was written" in done.stderr) == (2, True), done.output
    done = call("verify", run, "--json")
    assert done.exit_code == 1
    assert "chain" in {finding["check"] for finding in json.loads(done.stdout)["findings"]}


def test_a_model_of_another_shape_is_not_the_runs_model(folder: Path, run: Path, tmp_path: Path) -> None:
    """It used to be said that the data do not fit the model."""
    spec = Architecture("lenet", 3, (1, 28, 28))
    save(tmp_path / "wrong.safetensors", build(spec, seed=0), spec, {})
    done = call("verify", run, "--model", tmp_path / "wrong.safetensors")
    assert (done.exit_code, "the model is not the one that" in done.stderr) == (2, True), done.output


def test_a_renamed_model_is_noted(folder: Path, run: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "net0.safetensors", tmp_path / "renamed.safetensors")
    done = call("verify", run, "--model", tmp_path / "renamed.safetensors", "--workers", 1)
    assert (done.exit_code, "it is this one, renamed" in " ".join(done.stdout.split())) == (0, True), done.output


def test_an_image_of_16_bits_is_refused(folder: Path, tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 30_000, dtype=np.uint16)).save(tmp_path / "deep.png")
    done = call("predict", "--model", folder / "net0.safetensors", "--input", tmp_path / "deep.png")
    assert (done.exit_code, "not 8-bit" in done.stderr) == (2, True)
