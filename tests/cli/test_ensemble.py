"""`smoothcert ensemble`, and ensembles wherever a model is taken."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from smoothcert import datasets
from smoothcert.cli import app
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian
from smoothcert.training import hold_out


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """As trained on 80% of the training digits."""
    folder = tmp_path_factory.mktemp("members")
    spec = Architecture("lenet", 10, (1, 8, 8))
    data = {"name": "digits", "split": "train", "fingerprint": datasets.load("digits", "train").fingerprint}
    paths = [folder / f"net{seed}.safetensors" for seed in range(3)]
    for seed, path in enumerate(paths):
        details = {"noise": Gaussian(0.5).describe(), "data": data, "recipe": {"holdout": 0.2}}
        save(path, build(spec, seed=seed), spec, details)
    return paths


def models(paths: list[Path]) -> list[object]:
    return [word for path in paths for word in ("--model", path)]


CERTIFY = ["--data", "digits", "--n", 200, "--limit", 3, "--workers", 1]


def test_an_ensemble_is_made_certified_verified_and_predicts(members: list[Path], tmp_path: Path) -> None:
    made = call(
        "ensemble", "make", *models(members), "--aggregation", "consensus", "--k", 2, "--out", tmp_path / "e.json"
    )
    assert made.exit_code == 0, made.output
    run = tmp_path / "run"
    done = call("certify", "--model", tmp_path / "e.json", *CERTIFY, "--out", run)
    assert done.exit_code == 0, done.output
    assert "of 3 members were asked per draw; the first 2 agreed on" in done.stdout
    config = json.loads((run / "run.json").read_text())["config"]
    assert config["model"]["architecture"]["name"] == "consensus of lenet x3"
    assert config["model"]["ensemble"]["options"] == {"k": 2}
    assert config["classifier"]["kind"] == "Consensus"
    said = json.loads((run / "asked.json").read_text())
    assert said["asked"][:2] == [900, 900]
    assert said["cost"] in done.stdout
    assert f"run: {said['cost']}" in " ".join(call("analyze", run).stdout.split())
    again = call("verify", run, "--model", tmp_path / "e.json", "--workers", 2)
    assert again.exit_code == 0, again.output
    assert "3 of 3 records hold" in again.stdout
    other = call("verify", run, "--model", members[0])
    assert (other.exit_code, "the model is not the one" in other.stderr) == (2, True)
    tried = call("attack", "--run", run, "--model", tmp_path / "e.json", "--steps", 2, "--draws", 4, "--votes", 100)
    assert tried.exit_code == 0, tried.output
    assert "no attack succeeded below the certified radius" in tried.stderr
    np.save(tmp_path / "x.npy", datasets.load("digits", "test").inputs[:2])
    answer = call("predict", "--model", tmp_path / "e.json", "--run", run, "--input", tmp_path / "x.npy", "--json")
    assert answer.exit_code == 0, answer.output
    assert len(answer.stdout.splitlines()) == 2


def test_several_models_vote_softly_and_the_run_says_so(members: list[Path], tmp_path: Path) -> None:
    done = call("certify", *models(members[:2]), *CERTIFY, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "2.00 of 2 members were asked per draw" in done.stdout
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["model"]["files"] == ["net0.safetensors", "net1.safetensors"]
    assert call("verify", tmp_path / "run", *models(members[:2])).exit_code == 0
    assert config["model"]["ensemble"]["members"] == 2
    assert call("certify", *models(members[:1]), *CERTIFY, "--out", tmp_path / "one").exit_code == 0
    drawn = call("analyze", tmp_path / "one", tmp_path / "run", "--kind", "members", "--figure", tmp_path / "k.png")
    assert (drawn.exit_code, (tmp_path / "k.png").exists()) == (0, True), drawn.output
    assert call("verify", tmp_path / "run", *models(members[1::-1])).exit_code == 2, "the order is part of it"
    report = call("report", tmp_path / "run", "--out", tmp_path / "r.html")
    assert report.exit_code == 0, report.output
    assert "--model net0.safetensors --model net1.safetensors" in (tmp_path / "r.html").read_text()


def test_rank_and_weights_write_ensembles_that_cannot_be_certified_on_their_hold_out(
    members: list[Path], tmp_path: Path
) -> None:
    ranked = call("ensemble", "rank", *models(members), "--data", "digits", "--out", tmp_path / "r.json", "--json")
    assert ranked.exit_code == 0, ranked.output
    found = json.loads(ranked.stdout)
    assert sorted(found["order"]) == [0, 1, 2]
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["aggregation"] == "consensus"
    assert [Path(member["path"]).name for member in content["members"]] == [
        f"net{i}.safetensors" for i in found["order"]
    ]
    for method in ("radius", "convex", "sgd", "minimum-variance"):
        path = tmp_path / f"{method}.json"
        done = call("ensemble", "weights", *models(members), "--data", "digits", "--method", method, "--limit", 8,
                    "--out", path, "--json")  # fmt: skip
        assert done.exit_code == 0, done.output
        weights = json.loads(done.stdout)["weights"]
        assert sum(weights) == pytest.approx(1)
        assert json.loads(path.read_text())["options"]["weights"] == pytest.approx(weights)
    signed = call("ensemble", "weights", *models(members), "--data", "digits", "--limit", 8,
                  "--aggregation", "soft-voting", "--signed", "--at", 0.1, "--out", tmp_path / "signed.json",
                  "--json")  # fmt: skip
    assert signed.exit_code == 0, signed.output
    assert json.loads(signed.stdout)["method"] == "sween-radius"
    done = call("certify", "--model", tmp_path / "signed.json", *CERTIFY, "--every", 20, "--out", tmp_path / "signed")
    assert done.exit_code == 0, done.output
    clash = call("certify", "--model", tmp_path / "r.json", *CERTIFY, "--out", tmp_path / "no", "--start", 21)
    assert clash.exit_code == 2
    assert "inputs of --data digits were held out to make the ensemble" in clash.stderr
    assert not (tmp_path / "no").exists()
    fine = call("certify", "--model", tmp_path / "r.json", *CERTIFY, "--every", 20, "--out", tmp_path / "yes")
    assert fine.exit_code == 0, fine.output


def test_hold_out_data_are_never_those_of_training(members: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    options = ["--data", "digits", "--split", "train", "--start", 0, "--every", 1]
    done = call("ensemble", "rank", *models(members), *options, "--draws", 1, "--out", path)
    assert done.exit_code == 0, done.output
    train = datasets.load("digits", "train")
    assert json.loads(path.read_text())["details"]["hold_out"]["inputs"] <= len(hold_out(len(train), 0.2)[1])
    spec = Architecture("lenet", 10, (1, 8, 8))
    whole = tmp_path / "whole.safetensors"
    data = {"name": "digits", "split": "train", "fingerprint": train.fingerprint}
    save(whole, build(spec, seed=9), spec, {"noise": Gaussian(0.5).describe(), "data": data})
    call("ensemble", "make", *models([whole, members[0]]), "--out", tmp_path / "nested.json")
    for member in (whole, tmp_path / "nested.json"):
        refused = call("ensemble", "rank", "--model", member, *options)
        assert (refused.exit_code, "is what members were trained on" in refused.stderr) == (2, True)


def test_plan(members: list[Path]) -> None:
    options = ["--data", "digits", "--limit", 10, "--draws", 20, "--n", 1000, "--sizes", "1,3,10"]
    done = call("ensemble", "plan", *models(members), *options, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [row["size"] for row in found["sizes"]] == [1, 3, 10]
    assert found["sizes"][2]["measured"] is None
    assert 0 <= found["mixing_helps"] <= 1
    table = call("ensemble", "plan", *models(members), *options)
    assert "with 2-consensus" in " ".join(table.stdout.split())
    assert "share up to" in table.stderr
    assert "with one member nothing is known" in call("ensemble", "plan", "--model", members[0], *options).stderr


def test_how_long_weights_are_looked_for(members: list[Path]) -> None:
    """One step from equal weights is a short one, and other draws say other things."""
    base = ("ensemble", "weights", *models(members), "--data", "digits", "--limit", 8, "--json", "--method")
    found = {}
    for options in (("sgd", "--steps", 1), ("sgd", "--steps", 400), ("convex", "--draws", 2), ("convex",),
                    ("minimum-variance", "--draws", 2), ("minimum-variance",)):  # fmt: skip
        done = call(*base, *options)
        assert done.exit_code == 0, done.output
        found[options] = json.loads(done.stdout)
    one, many = [found["sgd", "--steps", steps]["weights"] for steps in (1, 400)]
    assert one == pytest.approx([1 / 3] * 3, abs=0.01), "lr 0.01"
    assert max(abs(w - 1 / 3) for w in many) > 0.01
    for method in ("convex", "minimum-variance"):
        assert found[method, "--draws", 2]["objective"] != found[method,]["objective"]


def test_refusals(members: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "e.json"
    moved = Path(shutil.copy(members[1], tmp_path / "moved.safetensors"))
    assert call("ensemble", "make", *models([members[0], moved]), "--out", out).exit_code == 0
    shutil.copy(members[2], moved)
    for arguments, words in [
        (["make", *models(members), "--weights", "1,x", "--out", tmp_path / "n.json"], "--weights must be numbers"),
        (["plan", *models(members), "--data", "digits", "--sizes", "1,x"], "--sizes must be numbers"),
        (["plan", *models(members), "--data", "digits", "--sizes", "1,nan"], "--sizes must be whole numbers"),
        (["plan", *models(members), "--data", "digits", "--draws", "0"], "--draws must be at least 2"),
        (["plan", *models(members), "--data", "digits", "--sizes", "2.5"], "--sizes must be whole numbers"),
        (["make", *models(members), "--k", 2, "--out", tmp_path / "n.json"], "soft-voting cannot be made with"),
        (
            ["weights", *models(members), "--data", "digits", "--method", "best"],
            "--method must be radius, convex, sgd or",
        ),
        (["weights", *models(members), "--data", "digits", "--method", "sgd", "--at", 1], "--at and --signed go with"),
        (["weights", *models(members), "--data", "digits", "--signed"], "give --aggregation soft-voting"),
        (["weights", *models(members), "--data", "digits", "--method", "sgd", "--draws", 9], "give --steps"),
        (["weights", *models(members), "--data", "digits", "--steps", 9], "--steps goes with --method sgd, not with"),
        (["make", "--model", out, "--out", tmp_path / "n.json"], "moved.safetensors was changed since"),
    ]:
        done = call("ensemble", *arguments)
        assert done.exit_code == 2, done.output
        assert words in done.stderr
    assert not (tmp_path / "n.json").exists()
    refused = call("certify", "--model", out, *CERTIFY, "--out", tmp_path / "run")
    assert (refused.exit_code, "moved.safetensors was changed" in refused.stderr) == (2, True)
