"""`certify --sigma-per-input`: what is recorded, resumed, verified, shown, predicted and refused."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from simulated_runs import read_run, rewrite, write_run
from typer.testing import CliRunner, Result

from smoothcert import datasets
from smoothcert.cli import app
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian as GaussianNoise
from smoothcert.noise import Noise
from smoothcert.procedures import Certificate, Procedure
from smoothcert.procedures.replay import replay
from smoothcert.training import train
from smoothcert.training.objectives import Gaussian


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt something, and a run of it."""
    path = tmp_path_factory.mktemp("sigma")
    spec, data = Architecture("lenet", 10, (1, 8, 8)), datasets.load("digits", "train")
    net, noise = build(spec, seed=0), GaussianNoise(0.25)
    x, y = data.tensors(range(600)), torch.from_numpy(data.labels[:600].copy())
    train(net, (x, y), Gaussian(noise), epochs=2, batch_size=32)
    save(path / "net.safetensors", net, spec, {"noise": noise.describe()})
    done = certify(path, path / "run")
    assert done.exit_code == 0, done.output
    return path


def certify(folder: Path, out: Path, *more: object) -> Result:
    return call(
        "certify", "--model", folder / "net.safetensors", "--data", "digits", "--out", out, "--n", 300, "--limit", 4,
        "--workers", 1, "--sigma-per-input", "bracket", "--sigma-draws", 32, *more,
    )  # fmt: skip


def records(run: Path) -> list[dict[str, object]]:
    return [line["certificate"] for line in sorted(read_run(run)[1], key=lambda line: line["index"])]


def test_what_is_recorded(folder: Path) -> None:
    config = json.loads((folder / "run" / "run.json").read_text())["config"]
    search = {"name": "bracket", "steps": 11, "draws": 32, "n": 400, "alpha": 0.001, "span": 4.0}
    assert config["sigma_search"] == search, "n is that of the certificates, n0 included"
    assert config["noise"]["sigma"] == 0.25
    found = records(folder / "run")
    assert {certificate["scope"] for certificate in found} == {"this input's own classifier"}
    assert len({certificate["noise"]["sigma"] for certificate in found}) > 1  # type: ignore[index]


def test_resume_gives_the_same(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "records.jsonl").write_text(lines[0] + lines[2][:50])
    done = certify(folder, tmp_path / "run")
    assert (done.exit_code, "claims nothing about neighbours" in done.stderr) == (0, True)
    assert records(tmp_path / "run") == records(folder / "run")
    other = certify(folder, tmp_path / "run", "--sigma-steps", 5)
    assert (other.exit_code, "11 steps of the search; this command asks for 5" in other.stderr) == (2, True)
    fixed = call(
        "certify", "--model", folder / "net.safetensors", "--data", "digits", "--out", tmp_path / "run", "--n", 300,
        "--limit", 4, "--workers", 1,
    )  # fmt: skip
    assert (fixed.exit_code, "was started with --sigma-per-input" in fixed.stderr) == (2, True)


def test_verify_draws_again_and_searches_again(folder: Path, tmp_path: Path) -> None:
    run, model = folder / "run", folder / "net.safetensors"
    assert call("verify", run).exit_code == 0, call("verify", run).output
    done = call("verify", run, "--model", model, "--fresh", 200, "--pick", 1)
    assert done.exit_code == 0, done.output
    assert "4 of 4 records hold" in done.stdout
    # A run with other strengths than the search finds: its votes are honest, how they were chosen is not.
    other = tmp_path / "other"
    assert certify(folder, other, "--sigma-steps", 2).exit_code == 0
    config, lines = read_run(other)
    config["sigma_search"]["steps"] = 11
    rewrite(other, config, lines)
    assert call("verify", other).exit_code == 0, "the claims follow from the votes"
    done = call("verify", other, "--model", model, "--json")
    found = {finding["check"] for finding in json.loads(done.stdout)["findings"]}
    assert (done.exit_code, found) == (1, {"sigma"}), done.output


def changed(folder: Path, out: Path, change: Callable[[dict[str, Any]], None], rows: Sequence[int]) -> Path:
    """A copy of the run with another certificate, consistent in itself, in some rows."""
    shutil.copytree(folder / "run", out)
    config, lines = read_run(out)
    for row in rows:
        change(lines[row]["certificate"])
        old = Certificate.from_json(lines[row]["certificate"])
        new = replay(old, Procedure.from_description(dict(old.procedure)), Noise.from_description(old.noise))
        claims = {name: getattr(new, name) for name in ("label", "radius", "reason", "p_lower", "p_upper")}
        lines[row]["certificate"] = dataclasses.replace(old, **claims).to_json()
    rewrite(out, config, lines)
    return out


def test_a_strength_that_nobody_can_draw_is_found(folder: Path, tmp_path: Path) -> None:
    """Too strong for the grid: it cannot be drawn again, and must not pass for that."""
    config, lines = read_run(folder / "run")
    lines[0]["certificate"]["noise"]["sigma"] = 500.0
    out = write_run(tmp_path / "run", config, lines)
    done = call("verify", out, "--model", folder / "net.safetensors", "--json")
    found = [finding["check"] for finding in json.loads(done.stdout)["findings"]]
    assert (done.exit_code, found) == (1, ["sigma", "replay", "noise"])


@pytest.mark.parametrize("sigma", [0.3, 2.0], ids=["between", "beyond"])
def test_a_strength_where_no_search_ends_is_found_without_the_model(folder: Path, tmp_path: Path, sigma: float) -> None:
    out = changed(folder, tmp_path / "run", lambda certificate: certificate["noise"].update(sigma=sigma), [1])
    done = call("verify", out, "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.exit_code, finding["check"]) == (1, "sigma")
    assert "where the search of the run cannot end" in finding["sentence"]


def test_another_torch_is_no_excuse_for_other_strengths(folder: Path, tmp_path: Path) -> None:
    out, (config, _) = tmp_path / "run", read_run(folder / "run")
    assert certify(folder, out, "--sigma-steps", 2).exit_code == 0  # other strengths, and honest votes of them
    _, lines = read_run(out)
    for line in lines:
        line["certificate"]["classifier"]["torch"] = "1.0"
    config["classifier"]["torch"] = "1.0"
    rewrite(out, config, lines)
    done = call("verify", out, "--model", folder / "net.safetensors", "--json")
    found = {finding["check"] for finding in json.loads(done.stdout)["findings"]}
    assert (done.exit_code, found) == (1, {"sigma"}), done.output


def test_renaming_the_cpu_unlocks_no_sigma(folder: Path, tmp_path: Path) -> None:
    """One input among few has another strength, with honest votes of it, under the cover of another CPU."""
    config, lines = read_run(folder / "run")
    assert certify(folder, tmp_path / "other", "--sigma-steps", 2).exit_code == 0
    others = {line["index"]: line for line in read_run(tmp_path / "other")[1]}
    row = next(
        i for i, line in enumerate(lines)
        if line["certificate"]["noise"]["sigma"] != others[line["index"]]["certificate"]["noise"]["sigma"]
    )  # fmt: skip
    lines[row] = others[lines[row]["index"]]
    for line in lines:
        line["certificate"]["classifier"]["cpu"] = "ABACUS"
    config["classifier"]["cpu"] = "ABACUS"
    shutil.copytree(folder / "run", tmp_path / "run")
    rewrite(tmp_path / "run", config, lines)
    done = call("verify", tmp_path / "run", "--model", folder / "net.safetensors", "--json")
    found = [(finding["check"], finding["index"]) for finding in json.loads(done.stdout)["findings"]]
    assert (done.exit_code, found) == (1, [("sigma", lines[row]["index"])]), done.output


def test_a_scope_that_is_not_the_runs_is_found(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    config, lines = read_run(tmp_path / "run")
    lines[0]["certificate"]["scope"] = "fixed classifier"
    rewrite(tmp_path / "run", config, lines)
    done = call("verify", tmp_path / "run", "--json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.exit_code, finding["check"]) == (1, "scope")
    assert "that of the run's settings is \"this input's own classifier\"" in finding["sentence"]


def test_tables_and_reports_say_the_scope(folder: Path, tmp_path: Path) -> None:
    table = call("analyze", folder / "run")
    assert "gaussian sigma per input" in table.stdout
    assert "4 of 4 certificates are of this input's own classifier" in " ".join(table.output.split())
    assert call("report", folder / "run", "--out", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Each certificate is about its input's own classifier." in page or "input\\u0027s own classifier" in page
    assert "--sigma-per-input bracket --sigma-steps 11 --sigma-draws 32 --sigma-span 4.0" in page


def test_predict_searches_again(folder: Path, tmp_path: Path) -> None:
    x = datasets.load("digits", "test").inputs[:4]
    np.save(tmp_path / "x.npy", x)
    base = ("predict", "--model", folder / "net.safetensors", "--run", folder / "run", "--input", tmp_path / "x.npy")
    done = call(*base, "--n", 200, "--json")
    assert done.exit_code == 0, done.output
    assert "claims nothing about the answers to its neighbours" in " ".join(done.stderr.split())
    sigmas = [json.loads(line)["noise"]["sigma"] for line in done.stdout.splitlines()]
    assert sigmas == [certificate["noise"]["sigma"] for certificate in records(folder / "run")]  # type: ignore[index]
    refused = call(*base, "--seed", 1)
    assert (refused.exit_code, "whose seed decides the sigma of each input" in refused.stderr) == (2, True)


def test_through_a_memory_it_is_one_classifier(folder: Path, tmp_path: Path) -> None:
    run, memory, model = tmp_path / "run", tmp_path / "regions.sqlite", folder / "net.safetensors"
    done = certify(folder, run, "--memory", memory)
    assert done.exit_code == 0, done.output
    assert "claims nothing about neighbours" not in done.stderr
    found, alone = records(run), records(folder / "run")
    assert {certificate["scope"] for certificate in found} == {"memory"}
    assert [certificate["noise"] for certificate in found] == [certificate["noise"] for certificate in alone]
    assert [certificate["answers"] for certificate in found] == [certificate["answers"] for certificate in alone]
    done = call("verify", run, "--model", model, "--memory", memory)
    assert done.exit_code == 0, done.output
    assert "gaussian sigma per input" in call("analyze", run).stdout


@pytest.mark.parametrize("method", ["ddrs", "grid"])
def test_the_other_methods(folder: Path, tmp_path: Path, method: str) -> None:
    own: list[object] = ["--sigma-lr", 0.01, "--sigma-span", 2] if method == "ddrs" else []
    done = certify(folder, tmp_path / "run", "--sigma-per-input", method, "--sigma-steps", 3, "--limit", 1, *own)
    assert done.exit_code == 0, done.output
    search = json.loads((tmp_path / "run" / "run.json").read_text())["config"]["sigma_search"]
    assert search == {"name": method, "steps": 3, "draws": 32} | ({"lr": 0.01, "span": 2.0} if own else {})
    (certificate,) = records(tmp_path / "run")
    sigma = certificate["noise"]["sigma"]  # type: ignore[index]
    if method == "grid":
        assert sigma in (1 / 3, 2 / 3, 1.0)
    else:
        assert 0.125 <= sigma <= 0.5
        assert sigma not in [2 ** (k / 8) for k in range(-40, 8)], "no lattice"
    config, lines = read_run(tmp_path / "run")
    lines[0]["certificate"]["noise"]["sigma"] = 0.61  # beyond the span, and between the steps of the grid
    beyond = call("verify", write_run(tmp_path / "beyond", config, lines), "--json")
    assert "sigma" in [finding["check"] for finding in json.loads(beyond.stdout)["findings"]]
    done = call("verify", tmp_path / "run", "--model", folder / "net.safetensors")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sigma-per-input", "newton"], "the names are bracket, ddrs, grid"),
        (["--sigma-lr", 0.1], "the search bracket has no lr"),
        (["--sigma-span", 1], "span of bracket must be a number above 1"),
        (["--sigma-steps", 0], "steps of bracket must be at least 1"),
        (["--procedure", "sequential", "--radius", 0.1], "--procedure sequential decides given ones"),
        (["--noise", "ablation", "--sigma", 0.8], "ablation noise cannot be chosen per input"),
    ],
    ids=["method", "lr", "span", "steps", "procedure", "noise"],
)
def test_what_cannot_work_is_one_sentence_and_nothing_is_written(
    folder: Path, tmp_path: Path, options: list[object], words: str
) -> None:
    done = certify(folder, tmp_path / "run", *options)
    assert (done.exit_code, words in " ".join(done.stderr.split())) == (2, True), done.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["steps", "draws", "lr", "span"])
def test_options_without_the_search(folder: Path, tmp_path: Path, name: str) -> None:
    done = call(
        "certify", "--model", folder / "net.safetensors", "--data", "digits", "--out", tmp_path / "run",
        f"--sigma-{name}", 3,
    )  # fmt: skip
    assert (done.exit_code, f"--sigma-{name} goes with --sigma-per-input" in done.stderr) == (2, True)
