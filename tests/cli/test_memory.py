"""`--memory` of certify, predict, verify and attack, and `smoothcert memory`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from simulated_runs import read_run
from torch import nn
from typer.testing import CliRunner, Result

from smoothcert.cli import app
from smoothcert.datasets import load
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory")
    spec = Architecture("lenet", 10, (1, 8, 8))
    model = build(spec, seed=0)
    last = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():
        last.bias[3] += 100.0  # every vote of every backend is for class 3: what is certified rests on n alone
    save(path / "net.safetensors", model, spec, {"noise": Gaussian(0.25).describe()})
    done = certify(path, path / "run", path / "m.sqlite")
    assert done.exit_code == 0, done.output
    assert not (path / "m.sqlite-wal").exists(), "closed: the file alone is the memory"
    images = load("digits", "test").tensors([0, 1]).numpy()
    np.save(path / "there.npy", images)
    return path


def certify(folder: Path, out: Path, memory: Path, *more: object) -> Result:
    options = ("--data", "digits", "--n", 300, "--limit", 8, "--workers", 1)
    model = ("--model", folder / "net.safetensors")
    return call("certify", *model, *options, "--out", out, "--memory", memory, *more)


def test_info_check_and_export(folder: Path, tmp_path: Path) -> None:
    text = call("memory", "info", folder / "m.sqlite").stdout
    about = json.loads(call("memory", "info", folder / "m.sqlite", "--json").stdout)
    assert f"regions: {about['regions']}" in text
    assert (about["norm"], about["shape"], about["noise"]["name"]) == ("l2", [1, 8, 8], "gaussian")
    checked = call("memory", "check", folder / "m.sqlite")
    assert (checked.exit_code, checked.stdout.startswith(f"{about['regions']} regions hold")) == (0, True)
    done = call("memory", "export", folder / "m.sqlite", "--out", tmp_path / "regions.npz")
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "regions.npz") as regions:
        assert regions["inputs"].shape == (about["regions"], 1, 8, 8)
        assert regions["radii"].max() == about["radius"]["largest"]
        assert json.loads(str(regions["owner"]))["id"] == about["id"]
    for arguments, words in (
        (("info", tmp_path / "none"), "does not exist; make one by smoothcert certify"),
        (("export", folder / "m.sqlite", "--out", tmp_path / "x.csv"), "--out must end in .npz"),
        (("export", folder / "m.sqlite", "--out", tmp_path / "regions.npz"), "exists; give another --out"),
        (("check", folder / "net.safetensors"), "cannot be used"),
    ):
        done = call("memory", *arguments)
        assert (done.exit_code, words in done.stderr) == (2, True), done.output


def test_no_memory_is_made_for_a_place_that_is_taken(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    for out in (tmp_path / "mine", tmp_path / "mine" / "letter.txt"):
        done = certify(folder, out, tmp_path / "new.sqlite")
        assert (done.exit_code, "exists and is not a run" in done.stderr) == (2, True), done.output
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["letter.txt", "mine"]


def test_the_run_resumes_and_says_what_it_claims(folder: Path, tmp_path: Path) -> None:
    before = (folder / "run" / "records.jsonl").read_bytes()
    assert certify(folder, folder / "run", folder / "m.sqlite").exit_code == 0
    assert (folder / "run" / "records.jsonl").read_bytes() == before
    done = certify(folder, folder / "run", tmp_path / "other.sqlite")
    assert (done.exit_code, "is not the one that" in done.stderr) == (2, True)
    assert not (tmp_path / "other.sqlite").exists(), "nothing is made for a run that refuses it"
    table = call("analyze", folder / "run")
    assert "through the memory" in table.stdout.replace("\n", " ")
    assert "answers through its memory" in table.stderr
    records = [line["certificate"] for line in read_run(folder / "run")[1]]
    assert {record["scope"] for record in records} == {"memory"}
    assert all({"label", "radius", "reason", "region", "cut_by"} == set(record["from_draws"]) for record in records)


def test_the_report_says_it_too(folder: Path, tmp_path: Path) -> None:
    done = call("report", folder / "run", "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    assert "The certificates hold for the classifier that answers through its memory." in page
    assert "inputs were inserted in the order of their index" in page
    assert "--memory run-again.sqlite --out run-again" in page


def test_verify_asks_the_memory(folder: Path, tmp_path: Path) -> None:
    done = call("verify", folder / "run", "--memory", folder / "m.sqlite", "--model", folder / "net.safetensors")
    assert done.exit_code == 0, done.output
    assert "8 of 8 records hold" in done.stdout
    assert "the memory (" in done.stdout
    alone = call("verify", folder / "run")
    assert (alone.exit_code, "not what the memory made of it" in " ".join(alone.stdout.split())) == (0, True)
    assert "not what the memory made of it" not in done.stdout
    certify(folder, tmp_path / "run", tmp_path / "m.sqlite", "--seed", 1)
    done = call("verify", folder / "run", "--memory", tmp_path / "m.sqlite")
    assert (done.exit_code, "is not the one" in done.stderr) == (2, True)


def test_answers_from_regions_that_no_record_made_do_not_count(folder: Path, tmp_path: Path) -> None:
    """A second run through the same memory, with fewer draws: regions of the first one answer the inputs of both."""
    shutil.copy(folder / "m.sqlite", tmp_path / "m.sqlite")
    out, memory = tmp_path / "run", tmp_path / "m.sqlite"
    done = certify(folder, out, memory, "--seed", 1, "--n", 200, "--limit", 10)
    assert done.exit_code == 0, done.output
    certificates = {line["index"]: line["certificate"] for line in read_run(out)[1]}
    resting = {
        index
        for index, certificate in certificates.items()
        if certificate["label"] not in (-1, certificate["from_draws"]["label"])
        or certificate["radius"] > certificate["from_draws"]["radius"]
    }
    assert resting == set(sorted(certificates)[:8]), "200 draws show less than the regions of 300"
    alone = call("verify", out, "--json")
    told = json.loads(alone.stdout)
    assert (alone.exit_code, told["findings"]) == (1, []), "the draws hold, and do not show what is claimed"
    assert told["holding"] == 2
    assert "do not count as holding" in told["notes"][-1]
    asked = call("verify", out, "--memory", memory, "--json")
    found = json.loads(asked.stdout)["findings"]
    assert (asked.exit_code, {finding["check"] for finding in found}) == (1, {"memory"})
    assert {finding["index"] for finding in found} == resting


def test_predict_asks_the_memory_first(folder: Path) -> None:
    model, inputs = ("--model", folder / "net.safetensors"), ("--input", folder / "there.npy")
    certificates = [line["certificate"] for line in read_run(folder / "run")[1][:2]]
    for more in (("--run", folder / "run"), ("--grid", 255)):
        done = call("predict", *model, *inputs, "--memory", folder / "m.sqlite", "--json", *more)
        assert done.exit_code == 0, done.output
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert [a["label"] for a in answers] == [c["label"] for c in certificates]
        assert {(a["scope"], len(a["answers"])) for a in answers} == {("memory", 0)}
    for more, words in (
        (("--run", folder / "run"), "answers through a memory; give it with --memory"),
        (("--memory", folder / "no.sqlite"), "does not exist"),
    ):
        done = call("predict", *model, *inputs, *more)
        assert (done.exit_code, words in done.stderr) == (2, True), done.output


def test_an_attack_is_refused(folder: Path) -> None:
    done = call("attack", "--run", folder / "run", "--model", folder / "net.safetensors")
    assert (done.exit_code, "attack cannot ask a memory" in done.stderr) == (2, True)
