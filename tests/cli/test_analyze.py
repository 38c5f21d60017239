"""`analyze` and `compare` on runs with simulated votes and on logs made here."""

import csv
import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
from simulated_runs import simulated_config
from typer.testing import CliRunner, Result

from smoothcert.analysis import read, reanalyse
from smoothcert.cli import app
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import Ask, Fixed, Procedure, Sequential, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import Tally

NOISE = Gaussian(0.5, dim=64).describe()


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def write_run(path: Path, procedure: Procedure, *, seed: int = 0, inputs: int = 20) -> Path:
    about = {"noise": NOISE, "procedure": procedure.describe(), "seed": seed, "classifier": {}}
    run, rng = Run.start(path, simulated_config(range(inputs), **about)), np.random.default_rng(seed)
    with run.writing() as writer:
        for i in range(inputs):
            p = 1 - 0.6 * rng.random() ** 3

            def draw(ask: Ask, p: float = p) -> Tally:
                k = int(rng.binomial(ask.n, p))
                return Tally((k, ask.n - k))

            made = converse(procedure.certify(Noise.from_description(NOISE)), draw)
            writer.append(Record.of(i, 0, dataclasses.replace(made, noise=NOISE, seed=seed), 0.5))
    return path


def write_log(path: Path, scale: float) -> Path:
    rows = [f"{20 * i}\t{i % 9 + 1}\t{i % 9 + 1 if i % 3 else -1}\t{scale * (i % 7):.4f}\n" for i in range(500)]
    path.write_text("idx\tlabel\tpredict\tradius\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analyze")
    write_run(folder / "seed0", Fixed(n=500), seed=0)
    write_run(folder / "seed1", Fixed(n=500), seed=1)
    write_run(folder / "sequential", Sequential(radius=0.25, n=500))
    write_log(folder / "low.tsv", 0.1234)
    write_log(folder / "high.tsv", 0.2345)
    return folder


def test_help_lists_the_figures_there_are() -> None:
    shown = " ".join(call("analyze", "--help").stdout.replace("│", " ").split())
    assert "Of the figure: certainty, curves, draws, members, saved, sigma. Default: curves." in shown


def test_every_format(folder: Path) -> None:
    logs = [folder / "low.tsv", folder / "high.tsv", "--radii", "0,0.5"]
    as_json = json.loads(call("analyze", *logs, "--json").stdout)
    assert [row["name"] for row in as_json["rows"]] == ["low", "high"]
    rows = list(csv.DictReader(io.StringIO(call("analyze", *logs, "--csv").stdout)))
    assert [row["name"] for row in rows] == ["low", "high"]
    # of 500, 333 are not abstentions; the radius is 0.5 or more for i % 7 in {5, 6} and {3, 4, 5, 6}
    for row, first in zip(rows, (5, 3), strict=True):
        right = [i for i in range(500) if i % 3]
        assert row["% at 0"] == f"{len(right) / 5:.1f}"
        assert row["% at 0.5"] == f"{len([i for i in right if i % 7 >= first]) / 5:.1f}"
    assert call("analyze", *logs, "--latex").stdout.startswith("\\begin{table}")
    assert "| name | noise |" in call("analyze", *logs, "--markdown").stdout
    assert "ACR" in call("analyze", *logs).stdout


def test_a_folder_is_a_leaderboard(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write_log(tmp_path / "low.tsv", 0.1234)
    write_log(tmp_path / "deep" / "high.tsv", 0.2345)
    (tmp_path / "other.tsv").write_text("a\tb\n")
    done = call("analyze", tmp_path, "--csv")
    assert done.exit_code == 0, done.output
    assert [row["name"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["high", "low"]
    assert "warning: skipped: " in done.stderr
    assert "other.tsv" in done.stderr


def test_another_alpha_and_fewer_draws(folder: Path) -> None:
    rows = {}
    for options in ("", "--alpha 0.05", "--alpha 0.001", "--n 500", "--n 50"):
        done = call("analyze", folder / "seed0", "--json", *options.split())
        assert done.exit_code == 0, done.output
        (rows[options],) = json.loads(done.stdout)["rows"]
    same = rows[""]["acr"]
    assert rows["--alpha 0.001"]["acr"] == rows["--n 500"]["acr"] == same
    assert rows["--alpha 0.05"]["acr"] > same > rows["--n 50"]["acr"] > 0
    assert (rows["--n 50"]["mean_draws"], rows["--n 50"]["settings"]["procedure"]["n"]) == (150, 50)
    text = call("analyze", folder / "seed0", "--alpha", 0.05).stdout
    assert "computed again from the stored votes at alpha 0.05" in " ".join(text.split())


def test_seeds_are_averaged_and_the_best_is_added_in_two_senses(folder: Path) -> None:
    pair = [folder / "seed0", folder / "seed1"]
    done = call("analyze", *pair, "--seeds", "--envelope", "--oracle", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    acrs = [row["acr"] for row in data["rows"]]
    assert data["rows"][2]["name"] == "oracle (best of each input)"
    assert acrs[2] > max(acrs[:2]) == data["envelope"]["acr"]["value"]
    best = max(zip(acrs[:2], ("seed0", "seed1"), strict=True))
    assert data["envelope"]["acr"]["of"] == best[1]
    assert data["averages"][0]["acr"]["mean"] == pytest.approx(sum(acrs[:2]) / 2)
    assert "mean of 2: seed*" in call("analyze", *pair, "--seeds").stdout
    only = json.loads(call("analyze", *pair, "--envelope", "--json").stdout)
    assert [row["name"] for row in only["rows"]] == ["seed0", "seed1"]
    assert only["envelope"] == data["envelope"]
    text = call("analyze", *pair, "--envelope", "--oracle").stdout
    assert "upper envelope (UE)" in text
    assert "knowing the truth: no classifier does that" in " ".join(text.split())


def test_savings_are_measured_against_the_run_that_is_named(folder: Path) -> None:
    (row,) = json.loads(call("analyze", folder / "sequential", "--json").stdout)["rows"]
    assert (row["savings"]["against"], row["savings"]["baseline_draws"]) == ("fixed n", 600)
    done = call("analyze", folder / "sequential", folder / "seed1", "--against", folder / "seed0", "--json")
    assert done.exit_code == 0, done.output
    sequential, other = (row["savings"] for row in json.loads(done.stdout)["rows"])
    assert (sequential["against"], sequential["baseline_draws"], sequential["time_rf"]) == ("seed0", 600, 1)
    assert sequential["sample_rf"] == 600 / sequential["mean_draws"] > 1
    assert (other["sample_rf"], other["time_against"]) == (1, "seed0")
    refused = call("analyze", folder / "sequential", "--against", folder / "low.tsv")
    assert (refused.exit_code, "cannot be measured against low" in refused.stderr) == (2, True)


@pytest.mark.parametrize("kind", [None, "curves", "sigma", "draws", "saved"])
def test_every_kind_of_figure(folder: Path, tmp_path: Path, kind: str | None) -> None:
    options = [] if kind is None else ["--kind", kind]
    done = call("analyze", folder / "seed0", folder / "sequential", "--figure", tmp_path / "a.svg", *options)
    assert done.exit_code == 0, done.output
    assert "The figure is in" in done.stdout
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["low.tsv", "--alpha", 0.01], "low keeps no votes"),
        (["sequential", "--alpha", 0.01], "only runs of 'fixed' can be computed again"),
        (["seed0", "--alpha", 2], "alpha must lie strictly between 0 and 1"),
        (["seed0", "--n", 501], "n must be at most the 500 draws"),
        (["seed0", "--n", 9], "n must be at least 10, got 9"),
        (["seed0", "--csv", "--latex"], "a table has one format, got --latex and --csv"),
        (["seed0", "--seeds"], "no two runs are of the same method"),
        (["seed0", "--envelope"], "at least two results"),
        (["low.tsv", "seed0", "--envelope"], "there is no envelope"),
        (["seed0", "--kind", "pie", "--figure", "a.png"], "no figure 'pie': the names are certainty, curves, draws"),
        (["seed0", "--kind", "draws"], "--kind draws needs --figure"),
        (["seed0", "seed1", "--envelope", "--kind", "draws", "--figure", "a.png"], "--envelope and --oracle do not go"),
        (["low.tsv", "seed0", "--oracle"], "there is no oracle"),
        (["seed0", "--against", "nowhere"], "nowhere does not exist"),
        (["seed0", "--figure", "a.gif"], "must end in .png, .svg, .pdf"),
        (["low.tsv", "--kind", "sigma", "--figure", "a.png"], "low does not record the noise"),
        (["seed0", "--radii", "a,b"], "--radii must be numbers"),
        (["seed0", "seed0"], "was given twice"),
    ],
)
def test_what_cannot_work_is_one_sentence(folder: Path, monkeypatch, arguments: list[object], words: str) -> None:
    monkeypatch.chdir(folder)
    done = call("analyze", *arguments)
    assert (done.exit_code, words in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.output
    assert done.stdout == ""
    assert not (folder / "a.png").exists()


def test_compare_in_words_and_numbers(folder: Path, tmp_path: Path) -> None:
    pair = [folder / "high.tsv", folder / "low.tsv"]
    done = call("compare", *pair, "--radii", "0,0.5", "--figure", tmp_path / "scatter.png")
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert "high has a larger ACR than low on 500 shared inputs, by at least" in words
    assert "% at 0.5" in words
    assert (tmp_path / "scatter.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(call("compare", *pair, "--radii", "0,0.5", "--json").stdout)
    assert data["inputs"] == 500
    at_zero, at_half = data["accuracy"]
    assert (at_zero["difference"], at_zero["only"]["p_value"]) == (0, 1)
    only = len([i for i in range(500) if i % 3 and i % 7 in (3, 4)])
    assert (at_half["only"]["a"], at_half["only"]["b"]) == (only, 0)
    assert at_half["only"]["p_value"] == pytest.approx(2 * 0.5**only, rel=1e-9)
    assert data["acr"]["interval"]["low"] > 0
    assert data["radii"]["b"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["low.tsv", "none.tsv"], "does not exist"),
        (["low.tsv", "low.tsv"], "was given twice"),
        (["low.tsv", "seed0"], "nothing to compare"),
        (["low.tsv", "high.tsv", "--figure", "a.gif"], "must end in .png, .svg, .pdf"),
        (["low.tsv", "high.tsv", "--radii", "-1"], "radii must be non-negative"),
    ],
)
def test_compare_refuses_in_one_sentence(folder: Path, monkeypatch, arguments: list[object], words: str) -> None:
    monkeypatch.chdir(folder)
    done = call("compare", *arguments)
    assert (done.exit_code, words in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.output
    assert done.stdout == ""


@pytest.mark.parametrize(
    "options",
    [
        ["--sigma", 0.3],
        ["--sigma", 0.3, "--norm", "linf", "--runner-up"],
        ["--noise", "uniform", "--sigma", 0.7, "--bound", "bernstein"],
        ["--noise", "laplace", "--sigma", 0.3],
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_what_the_engine_certified_is_reproduced_to_the_last_bit(tmp_path: Path, options: list[object]) -> None:
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(tmp_path / "net.safetensors", build(spec, seed=0), spec, {})
    certify = ["certify", "--model", tmp_path / "net.safetensors", "--data", "digits", "--out", tmp_path / "run"]
    done = call(*certify, "--n", 200, "--limit", 5, "--workers", 1, *options)
    assert done.exit_code == 0, done.output
    run = read(tmp_path / "run")
    assert reanalyse(run, alpha=0.001, n=200).records == run.records
