"""A router from the command line, on real digits: train, certify, verify, predict, attack, report, analyze."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

import smoothcert as sc
from smoothcert.cli import app
from smoothcert.core.plugins import load_plugin
from smoothcert.models import Architecture, build, save
from smoothcert.stats.rounding import down

PLUGIN = Path(__file__).parents[1] / "plugins" / "my_architecture.py"
RECIPE = "mnist-lenet-consistency-0.50-fast"
STRENGTHS = (0.25, 0.5)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def models(folder: Path, *, router: bool = True) -> list[object]:
    members = [word for s in STRENGTHS for word in ("--model", f"{s}={folder / f'net{s}.safetensors'}")]
    return [*(("--router", folder / "router" / "model.safetensors") if router else ()), *members]


def train_router(folder: Path) -> Result:
    quick = [word for one in ("architecture=perceptron", "batch_size=500", "chunk=500") for word in ("--set", one)]
    return call(
        "train", RECIPE, "--router", *models(folder, router=False), "--data", "digits", "--epochs", 6, *quick,
        "--label-draws", 4, "--out", folder / "router",
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(forgotten: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small networks, a router that was trained for them, and a run."""
    load_plugin(PLUGIN)
    path = tmp_path_factory.mktemp("routed")
    data, spec = sc.datasets.load("digits", "train"), Architecture("perceptron", 10, (1, 8, 8))
    x, y = data.tensors(range(len(data))), torch.from_numpy(data.labels.copy())
    for strength in STRENGTHS:
        network, noise = build(spec, seed=0), sc.Gaussian(strength)
        sc.train(network, (x, y), sc.objectives.Gaussian(noise), epochs=10, on_epoch=lambda _: None)
        save(path / f"net{strength}.safetensors", network, spec, {"noise": noise.describe()})
    done = train_router(path)
    assert done.exit_code == 0, done.output
    assert f"smoothcert certify --router {path / 'router' / 'model.safetensors'} --model 0.25=" in done.output
    assert f"best strengths of the {len(data)} training inputs: 0.25 for" in done.output
    done = call(
        "certify", *models(path), "--data", "digits", "--n", 600, "--limit", 12, "--workers", 1, "--out", path / "run"
    )
    assert done.exit_code == 0, done.output
    return path


def test_the_router_says_what_it_is_for(folder: Path) -> None:
    found = sc.load_model(folder / "router" / "model.safetensors")
    assert found.details["class_names"] == ["0.25", "0.5"]
    assert found.details["routes"]["strengths"] == [0.25, 0.5]
    assert found.details["objective"]["name"] == "consistency"
    named = [sc.load_model(folder / f"net{s}.safetensors").fingerprint for s in STRENGTHS]
    assert found.details["routes"]["members"] == named
    offsets = found.details["offsets"]
    assert len(offsets["values"]) == 2
    assert offsets["routed"] >= offsets["single"] > 0
    again = train_router(folder)
    assert (
        f"by a rough estimate {down(offsets['routed'], 4)} routed and {down(offsets['single'], 4)} with one strength"
        in " ".join(again.output.split())
    )
    assert "label: started" not in again.output
    assert "already trained" in again.output


def test_the_run_names_every_model(folder: Path) -> None:
    config = sc.Run.open(folder / "run").config
    assert config.routing is not None
    assert config.routing.router.files == ("model.safetensors",)
    assert [member.files for member in config.routing.members] == [(f"net{s}.safetensors",) for s in STRENGTHS]
    assert config.routing.noise["sigma"] == 0.5
    assert config.routing.noise["grid"] == config.noise["grid"] == 1 / 255
    kept = sc.Run.open(folder / "run").certificates()
    assert sum(not c.abstained for c in kept) >= 6
    assert all("answered with sigma 0." in c.reason for c in kept if not c.abstained)


def test_it_is_verified(folder: Path) -> None:
    done = call("verify", folder / "run")
    assert done.exit_code == 0, done.output
    done = call("verify", folder / "run", *models(folder), "--fresh", 300, "--pick", 3, "--workers", 1)
    assert done.exit_code == 0, done.output
    assert "12 of 12 records hold: level 1" in done.stdout
    done = call("verify", folder / "run", "--model", folder / "net0.25.safetensors")
    assert done.exit_code == 2
    assert "was certified with a router; give --router, and --model STRENGTH=MODEL for each of 0.25, 0.5" in done.stderr
    other = ["--router", folder / "net0.5.safetensors", *models(folder, router=False)]
    done = call("verify", folder / "run", *other)
    assert (done.exit_code, "the router tells 10 strengths apart, and there are 2 models" in done.stderr) == (2, True)


def test_the_same_command_goes_on_and_another_router_sigma_does_not(folder: Path) -> None:
    same = ["certify", *models(folder), "--data", "digits", "--n", 600, "--limit", 12, "--workers", 1]
    assert call(*same, "--out", folder / "run").exit_code == 0
    done = call(*same, "--router-sigma", 0.4, "--out", folder / "run")
    assert done.exit_code == 2
    assert "was started with another noise of the router" in done.stderr
    done = call(*same, "--sigma", 0.25, "--out", folder / "other")
    assert (done.exit_code, "--sigma does not go with --router" in done.stderr) == (2, True)
    swapped = ["--model", f"0.3={folder / 'net0.25.safetensors'}", "--model", f"0.5={folder / 'net0.5.safetensors'}"]
    done = call(
        "certify", "--router", folder / "router" / "model.safetensors", *swapped, "--data", "digits",
        "--out", folder / "other",
    )  # fmt: skip
    assert done.exit_code == 2
    assert "the router was trained for the strengths 0.25, 0.5, got 0.3, 0.5" in done.stderr
    assert not (folder / "other").exists()


def test_images_are_answered_with_and_without_the_run(folder: Path, tmp_path: Path) -> None:
    digits = sc.datasets.load("digits")
    for index in (0, 1):
        Image.fromarray(np.asarray(digits.inputs[index])[0]).save(tmp_path / f"{index}.png")
    images = [word for index in (0, 1) for word in ("--input", tmp_path / f"{index}.png")]
    as_run = call("predict", *models(folder), "--run", folder / "run", *images, "--workers", 1, "--json")
    assert as_run.exit_code == 0, as_run.output
    alone = call("predict", *models(folder), *images, "--workers", 1, "--json")
    assert alone.exit_code == 0, alone.output
    said, again = ([json.loads(line) for line in done.stdout.splitlines()] for done in (as_run, alone))
    assert [one["label"] for one in said] == [one["label"] for one in again]
    assert all("route" in one for one in said)
    radius = call("predict", *models(folder), "--run", folder / "run", "--certify", "--n", 600, *images, "--workers", 1)
    assert radius.exit_code == 0, radius.output
    kept = sc.Run.open(folder / "run").certificates()
    assert kept[0].reason in radius.stdout


@pytest.mark.slow
def test_no_attack_within_the_radius_succeeds(folder: Path, tmp_path: Path) -> None:
    few = ("--steps", 6, "--draws", 16, "--votes", 200, "--radii", "1,2", "--workers", 1, "--out", tmp_path / "attack")
    done = call("attack", "--run", folder / "run", *models(folder), *few)
    assert done.exit_code == 0, done.output
    assert "no attack succeeded below the certified radius" in done.stderr
    rows = json.loads(call("attack", "--run", folder / "run", *models(folder), *few, "--json").stdout)["rows"]
    assert rows[-1]["left_by_all"]["count"] < rows[0]["left_by_all"]["count"], "an attack of norm 2 gets through"


def test_it_is_tabulated_and_shown(folder: Path, tmp_path: Path) -> None:
    done = call("analyze", folder / "run")
    assert done.exit_code == 0, done.output
    assert "routed" in done.stdout
    done = call("report", folder / "run", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text()
    assert "the choice holds within" in page
    assert "--router model.safetensors --model 0.25=net0.25.safetensors" in page
    assert "--router-sigma 0.5" in page
    done = call("analyze", folder / "run", "--alpha", 0.01)
    assert (done.exit_code, "has a router, whose votes are not computed again" in done.stderr) == (2, True)


def test_what_does_not_go_together_is_refused(folder: Path, tmp_path: Path) -> None:
    net = folder / "net0.25.safetensors"
    for words, sentence in {
        ("certify", "--model", f"0.25={net}", "--data", "digits", "--out", tmp_path / "a"): "which goes with --router",
        ("certify", *models(folder), "--data", "digits", "--memory", tmp_path / "m.sqlite", "--out", tmp_path / "a"):
            "leave the search, weights per input and the memory out",
        ("train", RECIPE, "--model", f"0.25={net}", "--out", tmp_path / "a"): "--model goes with --router",
        ("train", RECIPE, "--router", "--seeds", "0-2", *models(folder, router=False), "--out", tmp_path / "a"):
            "do not go with --router",
        ("train", RECIPE, "--router", "--out", tmp_path / "a"): "give --model for two or more, got 0",
    }.items():  # fmt: skip
        done = call(*words)
        assert done.exit_code == 2, done.output
        assert sentence in " ".join(done.stderr.split()), done.stderr
    assert list(tmp_path.iterdir()) == []
