"""`train` and `recipes` as a user meets them."""

import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

from smoothcert import models
from smoothcert.cli import app
from smoothcert.training.recipes import RECIPES

SMALL = "architecture=lenet"  # digits are 8 x 8, too small for the network of MNIST
QUICK = ["train", "mnist-lenet-gaussian-0.50-fast", "--data", "digits", "--epochs", "2", "--set", SMALL]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def weights(path: Path) -> dict[str, torch.Tensor]:
    return models.load(path).model.state_dict()


def assert_near(one: torch.Tensor, other: torch.Tensor) -> None:
    """As near as rounding leaves them on every CPU: a training carries a last bit on into the fourth digit."""
    assert torch.linalg.vector_norm(one - other) <= 1e-3 * torch.linalg.vector_norm(other)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, threads = tmp_path_factory.mktemp("train") / "out", torch.get_num_threads()
    torch.set_num_threads(1)  # as members and processes of a group have: sums of two threads are rounded otherwise
    done = call(*QUICK, "--out", out)
    torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    assert f"trained: {out / 'model.safetensors'}" in done.stdout
    assert "epoch 2/2, loss" in done.stderr
    return out


def test_the_folder_has_everything(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} == {
        ".lock", "train.json", "state.safetensors", "log.jsonl", "progress.log", "curves.png",
        "model.safetensors", "events",
    }  # fmt: skip
    log = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    assert [epoch["number"] for epoch in log] == [1, 2]
    assert all(0 <= epoch["accuracy"] <= 1 for epoch in log)
    with Image.open(trained / "curves.png") as image:
        assert image.size[0] > 500
    checkpoint = models.load(trained / "model.safetensors")
    details = checkpoint.details
    assert details["recipe"]["epochs"] == 2
    assert details["recipe"]["objective"] == {"name": "gaussian"}
    assert (details["seed"], details["data"]["name"], details["data"]["size"]) == (0, "digits", 1297)
    assert details["noise"]["sigma"] == 0.5, "certify takes the noise of training from here"
    assert details["accuracy_under_noise"] == log[-1]["accuracy"]
    assert checkpoint.architecture.input_shape == (1, 8, 8)


def test_again_it_is_there_and_another_setting_is_refused(trained: Path) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    again = call(*QUICK, "--out", trained)
    assert (again.exit_code, "already trained" in again.stdout) == (0, True), again.output
    for more, words in [
        (["--set", "lr=0.2"], "recipe.lr is 0.1, now 0.2"),
        (["--seed", 1], "seed is 0, now 1"),
        (["--set", "objective.lam=1"], "no key 'objective.lam'"),
    ]:
        done = call(*QUICK, "--out", trained, *more)
        assert (done.exit_code, words in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.output
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


def test_curves_that_a_kill_left_out_are_made(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "out")
    (tmp_path / "out" / "curves.png").unlink()
    again = call(*QUICK, "--out", tmp_path / "out")
    assert (again.exit_code, "already trained" in again.stdout) == (0, True), again.output
    assert (tmp_path / "out" / "curves.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "mnist-lenet-macer", "--data", "digits"], "did you mean mnist-lenet-macer"),
        (["train", "mnist-lenet-macer-0.25", "--data", "digits"], "choose a network for smaller images, such as lenet"),
        ([*QUICK, "--set", "batch_size=0"], "must be positive"),
        ([*QUICK, "--set", "sigma=-1"], "sigma must be"),
        ([*QUICK, "--set", "architecture=vgg"], "there is no architecture 'vgg'"),
        ([*QUICK, "--epochs", 0], "must be positive"),
        (["train", "cifar10-resnet20-gaussian-0.25", "--data", "digits"], "images with 3 channel(s), as cifar10 has"),
        (["train", "mnist-lenet-gaussian-0.25", "--data", "minst"], "did you mean"),
        ([*QUICK, "--accumulate", 0], "--accumulate must be at least 1 and at most the 128 inputs"),
        ([*QUICK, "--accumulate", 2, "--set", "chunk=4"], "say the same thing"),
        ([*QUICK, "--seeds", "4-1"], "--seeds must be different whole numbers"),
        ([*QUICK, "--seeds", "1,1"], "--seeds must be different whole numbers"),
        ([*QUICK, "--seeds", "0-"], "--seeds must be different whole numbers"),
        ([*QUICK, "--seeds", "0,5-2"], "--seeds must be different whole numbers"),
        ([*QUICK, "--seeds", "0,,2"], "--seeds must be different whole numbers"),
        ([*QUICK, "--seeds", ""], "--seeds must be different whole numbers"),
        ([*QUICK, "--seeds", "0-99999999999999"], "--seeds may name at most 1000 members"),
        ([*QUICK, "--seeds", "0-1", "--seed", 0], "--seed 0 and --seeds 0-1 say two things"),
        ([*QUICK, "--seed", 2**70], "--seed must lie between -2^63 and 2^63 - 1"),
        ([*QUICK, "--set", "lr=Infinity"], "must be positive and finite"),
        (
            ["train", "mnist-lenet-smoothadv-0.50", "--data", "digits", "--set", "objective.attack.bounds=5"],
            "bounds of an attack must be two numbers",
        ),
        ([*QUICK, "--seeds", "0-1", "--jobs", 0], "--jobs must be at least 1"),
        ([*QUICK, "--device", "abacus"], "--device 'abacus' cannot be used here"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, arguments: list[object], words: str
) -> None:
    done = call(*arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stderr.count("\n") == 1, "one sentence"
    assert list(tmp_path.iterdir()) == []


def test_accumulate_splits_the_batch(trained: Path, tmp_path: Path) -> None:
    done = call(*QUICK, "--accumulate", 3, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    recipes = [models.load(out / "model.safetensors").details["recipe"] for out in (trained, tmp_path / "out")]
    assert [recipe.pop("chunk") for recipe in recipes] == [64, 43]
    assert recipes[0] == recipes[1]


def test_tables_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "table.npz", x=np.zeros((4, 3), np.float32), y=np.arange(4) % 2)
    done = call("train", "mnist-lenet-gaussian-0.50", "--data", tmp_path / "table.npz", "--out", tmp_path / "out")
    assert (done.exit_code, "inputs of shape (3,)" in done.stderr) == (2, True), done.output


def test_a_loss_that_breaks_is_said_and_leaves_no_model(tmp_path: Path) -> None:
    done = call(*QUICK, "--set", "lr=1e30", "--out", tmp_path / "out")
    assert (done.exit_code, "training has diverged, lower lr" in done.stderr) == (2, True), done.output
    assert not (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.slow
def test_members_side_by_side_are_those_trained_alone(trained: Path, tmp_path: Path) -> None:
    done = call(*QUICK, "--seeds", "0-1", "--jobs", 2, "--out", tmp_path / "both")
    assert done.exit_code == 0, done.output
    assert re.search(r"^seed 1: done in .*epoch 2/2", done.stderr, re.M)
    assert (tmp_path / "both" / "curves.png").exists()
    alone, member = weights(trained / "model.safetensors"), weights(tmp_path / "both" / "seed0" / "model.safetensors")
    other = weights(tmp_path / "both" / "seed1" / "model.safetensors")
    for name in alone:
        assert_near(member[name], alone[name])
    assert not torch.equal(other["features.0.weight"], member["features.0.weight"])
    again = call(*QUICK, "--seeds", "0-1", "--jobs", 1, "--out", tmp_path / "both")
    assert again.stdout.count("already trained") == 2
    refused = call(*QUICK, "--seeds", "0-1", "--jobs", 1, "--set", "lr=0.2", "--out", tmp_path / "both")
    assert (refused.exit_code, "recipe.lr is 0.1, now 0.2" in refused.stderr) == (2, True), refused.output


@pytest.mark.slow
def test_torchrun_trains_the_same_model(trained: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "-m", "smoothcert", *QUICK, "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained:") == 1, "one process speaks"
    one, two = weights(trained / "model.safetensors"), weights(tmp_path / "out" / "model.safetensors")
    for name in one:
        assert_near(two[name], one[name])


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_of_a_group_one_process_says_the_sentence(rank: str, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("LOCAL_RANK", rank)
    done = call("train", "nothing", "--out", "out")
    assert (done.exit_code, done.stderr.count("\n")) == (2, lines)


def test_recipes_are_listed() -> None:
    done = call("recipes")
    assert done.exit_code == 0, done.output
    assert all(name in done.stdout for name in RECIPES)
    assert "Zhai 2020" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("mnist-lenet-macer-0.25 "))
    assert line.split()[1:5] == ["90", "16", "2.6", "0.9201"]
    some = call("recipes", "svhn")
    assert [line.split()[0] for line in some.stdout.splitlines()[1:-2]] == [n for n in RECIPES if "svhn" in n]
    macers = json.loads(call("recipes", "mnist*macer*fast", "--json").stdout)
    assert [one["name"] for one in macers] == [n for n in RECIPES if fnmatch(n, "mnist*macer*fast")]
    assert len(macers) >= 12, "MACER and AdvMacer, three sigmas, with and without ds2"
    one = json.loads(call("recipes", "mnist-lenet-macer-0.25").stdout)
    assert (one["objective"]["lam"], one["published_acr"], one["passes"]) == (16, 0.9201, 16)
    unknown = call("recipes", "mnist-lenet-maser-0.25")
    assert (unknown.exit_code, "did you mean" in unknown.stderr) == (2, True)


def test_fine_tuning_starts_from_the_weights_of_a_checkpoint(trained: Path, tmp_path: Path) -> None:
    start = trained / "model.safetensors"
    options = ["--init", start, "--set", "lr=1e-12", "--set", "weight_decay=0"]
    assert call(*QUICK, "--epochs", 1, *options, "--out", tmp_path / "a").exit_code == 0
    for name, value in weights(tmp_path / "a" / "model.safetensors").items():
        if "num_batches" not in name and "running" not in name:
            torch.testing.assert_close(value, weights(start)[name], atol=1e-6, rtol=0)
    done = call(*QUICK, "--init", start, "--set", "architecture=mlp", "--out", tmp_path / "b")
    assert done.exit_code == 2
    done = call(*QUICK, "--set", "lr=1e-12", "--epochs", 1, "--out", tmp_path / "a")
    assert (done.exit_code, "init is" in done.stderr) == (2, True), done.output


def test_models_are_kept_and_events_written(tmp_path: Path) -> None:
    options = ["--keep-every", 1, "--set", "optimizer=adamw", "--set", "lr=0.003", "--set", "ema=0.99"]
    done = call(*QUICK, *options, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    kept = sorted(path.name for path in (tmp_path / "a").glob("epoch-*"))
    assert kept == ["epoch-0001.safetensors", "epoch-0002.safetensors"]
    last, model = (weights(tmp_path / "a" / name) for name in ("epoch-0002.safetensors", "model.safetensors"))
    assert all(torch.equal(last[name], value) for name, value in model.items())
    assert list((tmp_path / "a" / "events").glob("events.out.tfevents*"))
    done = call(*QUICK, "--set", "optimizer=adagrad", "--out", tmp_path / "b")
    assert (done.exit_code, "must be one of sgd, adam, adamw, muon" in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    ("changes", "noise"),
    [
        (["noise=uniform"], {"name": "uniform", "half_width": 0.5}),
        (["noise=laplace", "noise.scale=0.3"], {"name": "laplace", "scale": 0.3}),
        (["noise=ablation", "noise.keep=0.4", "noise.values=17"], {"name": "ablation", "keep": 0.4, "values": 17}),
    ],
)
def test_training_under_other_noises(changes: list[str], noise: dict[str, object], tmp_path: Path) -> None:
    options = [part for change in changes for part in ("--set", change)]
    done = call(*QUICK, "--epochs", 1, *options, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    found = models.load(tmp_path / "a" / "model.safetensors").details["noise"]
    assert {name: found[name] for name in noise} == noise
    words = done.stdout.rpartition("see: smoothcert ")[2].split()
    assert words[:1] + words[3:5] == ["certify", "--noise", str(noise["name"])]
    few = ("--data", "digits", "--n", 20, "--limit", 1, "--workers", 1, "--out", tmp_path / "run")
    done = call(*words[:5], *few)
    if "values" in noise:  # images of digits have 256 levels
        assert "must be multiples of 1/16 in [0, 1] for Ablation(values=17)" in done.stderr
    else:
        assert done.exit_code == 0, done.output
    done = call(*words[:3], *few)
    assert (done.exit_code, f"was trained under {noise['name']} noise; give --noise" in done.stderr) == (2, True)


def test_a_missing_teacher_is_told(tmp_path: Path) -> None:
    quick = ("train", "mnist-lenet-catrs-0.25-fast", "--data", "digits", "--epochs", 1, "--set", "architecture=lenet")
    done = call(*quick, "--out", tmp_path / "a")
    assert "note: without --set objective.teacher=CHECKPOINT labels are the targets" in done.stderr
    teacher = ("--set", f"objective.teacher={tmp_path / 'a' / 'model.safetensors'}")
    done = call(*quick, *teacher, "--out", tmp_path / "b")
    assert (done.exit_code, "note:" in done.stderr) == (0, False), done.output
