"""`smoothcert figure`, on members and trainings that are small and real."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import smoothcert as sc
from smoothcert import datasets
from smoothcert.analysis import average_certified_radius, read
from smoothcert.analysis.model_fit import MemberLogits
from smoothcert.analysis.outcome_law import expected_radius, first_stage
from smoothcert.analysis.variance import components
from smoothcert.cli import app
from smoothcert.datasets import Subset
from smoothcert.models.ensembles.sampling import clean_logits, noisy_logits
from smoothcert.noise import Gaussian
from smoothcert.present.figures import MEMBER_FIGURES, Planned, expected_radius_figure, stages_figure
from smoothcert.present.figures.margins import measured_success
from smoothcert.present.figures.noise_images import NoisyImage, noise_images_figure
from smoothcert.present.figures.progress import Snapshot, progress_figure
from smoothcert.procedures import Staged
from smoothcert.workflows.choices import NoiseChoice
from smoothcert.workflows.ensemble import HoldOut, open_held_out

PNG = b"\x89PNG"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four LeNets trained on digits for three epochs, each of which is kept."""
    folder = tmp_path_factory.mktemp("nets")
    done = call(
        "train", "mnist-lenet-gaussian-0.25-fast", "--data", "digits", "--set", "architecture=lenet", "--epochs", 3,
        "--keep-every", 1, "--seeds", "0-3", "--jobs", 1, "--out", folder / "four",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder / "four"


@pytest.fixture(scope="module")
def logits(nets: Path) -> MemberLogits:
    held = HoldOut("digits", subset=Subset(start=1, every=5, limit=24), noise=NoiseChoice(grid="off"))
    opened = open_held_out([nets / f"seed{i}" / "model.safetensors" for i in range(4)], held)
    noisy = noisy_logits(opened.models, opened.x, opened.noise, 64)
    clean = clean_logits(opened.models, opened.x)
    return MemberLogits(noisy, clean, opened.y.numpy(), tuple(map(str, opened.rows)), opened.noise.strength)


def models(nets: Path) -> list[object]:
    return [word for i in range(4) for word in ("--model", nets / f"seed{i}" / "model.safetensors")]


@pytest.mark.parametrize("kind", sorted(MEMBER_FIGURES))
def test_every_figure_of_members_is_one_command(kind: str, nets: Path, tmp_path: Path) -> None:
    command = ["figure", "members", kind, *models(nets), "--data", "digits", "--limit", 8, "--draws", 16]
    done = call(*command, "--n", 200, "--out", tmp_path / "f.png")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "f.png").read_bytes().startswith(PNG)


def test_sampled_logits_are_the_models_own(nets: Path, logits: MemberLogits) -> None:
    model = sc.load_model(nets / "seed2" / "model.safetensors").model
    x = datasets.load("digits", "test").tensors([int(name) for name in logits.names])
    assert logits.clean[:, 2] == pytest.approx(np.asarray(model(x).detach().double()), abs=1e-5)


def test_margins_are_of_the_model_and_of_the_sample(logits: MemberLogits) -> None:
    left, middle, right = MEMBER_FIGURES.find("margins")(logits, Planned((1, 3), n=200)).axes
    model = components(logits.noisy)
    alone, both = model.success(1), model.top == logits.labels
    chosen = int(np.where(both, np.abs(alone - 0.8), np.inf).argmin())
    assert middle.lines[0].get_xydata()[:, 1] == pytest.approx([model.success(k)[chosen] for k in (1, 3)])  # type: ignore[index]
    rival = model.rivals[chosen, 0]
    peak = left.lines[0].get_xydata()[:, 1].max()  # type: ignore[index]
    assert peak == pytest.approx(1 / np.sqrt(2 * np.pi * model.variance(1)[chosen, rival]), rel=1e-3)
    mean = expected_radius(alone[[chosen]], logits.sigma, n=200, alpha=0.001)[0]
    assert f"1 member: mean {mean:.3f}" in right.get_legend_handles_labels()[1][0]
    answers = logits.noisy[chosen][:, 0].argmax(axis=1) == model.top[chosen]
    assert measured_success(logits, chosen, int(model.top[chosen]), 1)[0] == pytest.approx(answers.mean())
    assert len(measured_success(logits, chosen, int(model.top[chosen]), 4)) == 1


def test_fit_and_covariances_show_what_was_sampled(logits: MemberLogits) -> None:
    fit = MEMBER_FIGURES.find("fit")(logits, Planned()).axes
    assert [axes.get_title(loc="left")[0] for axes in fit] == ["a", "b", "c", "d"]
    for axes in fit[:3]:  # nothing is lost: densities add up to 1, but for what lies outside
        values, edges, _ = axes.patches[0].get_data()  # type: ignore[attr-defined]
        assert 0.97 < float((values * np.diff(edges)).sum()) <= 1 + 1e-9
    left, right = MEMBER_FIGURES.find("independence")(logits, Planned()).axes[:2]
    assert left.images[0].get_array().shape == right.images[0].get_array().shape == (20, 20)  # type: ignore[union-attr]
    assert np.allclose(left.images[0].get_array()[:10, 10:], 0)  # type: ignore[index]
    shown = [axes.images[0].get_array() for axes in MEMBER_FIGURES.find("covariance")(logits, Planned()).axes[:6]]
    for measured, difference, modelled in (shown[:3], shown[3:]):
        assert np.allclose(measured - modelled, difference)  # type: ignore[operator, arg-type]


def test_too_few_members_and_draws_are_refused(nets: Path, tmp_path: Path) -> None:
    one = [
        "--model",
        nets / "seed0" / "model.safetensors",
        "--data",
        "digits",
        "--limit",
        8,
        "--out",
        tmp_path / "f.png",
    ]
    for kind, sentence in (
        ("margins", "at least 2 members"),
        ("fit", "at least 3 members"),
        ("x", "no figure of members"),
    ):
        refused = call("figure", "members", kind, *one, "--draws", 4)
        assert (refused.exit_code, sentence in refused.stderr) == (2, True), refused.output
    refused = call("figure", "members", "margins", *one, "--draws", 1)
    assert "--draws must be at least 2" in refused.stderr
    refused = call("figure", "members", "margins", *one, "--n", 10)
    assert "n must be at least 100" in refused.stderr
    assert not (tmp_path / "f.png").exists()


def test_expected_radii_and_stages_are_exact(tmp_path: Path) -> None:
    for command in (["radius", "--p", "0.7,0.99"], ["stages", "--stages", "100,1000", "--alpha", "0.001"]):
        done = call("figure", *command, "--out", tmp_path / f"{command[0]}.svg")
        assert done.exit_code == 0, done.output
    (axes,) = expected_radius_figure([0.99], sigma=0.5, alpha=0.001).axes
    draws, radii = axes.lines[0].get_data()
    at = list(draws).index(100_000)
    assert radii[at] == expected_radius(np.array([0.99]), 0.5, n=100_000, alpha=0.001)[0]
    procedure, noise = Staged(radius=0.25, stages=(100, 1000)), Gaussian(sigma=0.25)
    panels = stages_figure(noise, [("a", procedure)]).axes
    p = np.asarray(panels[0].lines[0].get_xdata())
    law = first_stage(p, procedure, noise.required_p(0.25))
    for axes, wanted in zip(panels, (law.certify, law.abstain, law.go_on), strict=True):
        assert np.array_equal(axes.lines[0].get_ydata(), wanted)
    for options, sentence in (
        (["--p", "1.5"], "--p must be probabilities"),
        (["--sigma", "-1"], "sigma must be a positive finite number"),
    ):
        refused = call("figure", "radius", *options, "--out", tmp_path / "no.png")
        assert (refused.exit_code, sentence in refused.stderr) == (2, True), refused.output
    refused = call("figure", "stages", "--alpha", "0.1,0.01", "--beta", "0.1,0.01,0.001", "--out", tmp_path / "no.png")
    assert "must be as many" in refused.stderr


def test_progress_is_the_best_acr_so_far(nets: Path, tmp_path: Path) -> None:
    """Twice: the second time every run is there, and nothing is certified again."""
    command = ["figure", "progress", nets / "seed0", nets / "seed1", "--data", "digits", "--limit", 6, "--n", 100]
    for _ in range(2):
        done = call(*command, "--runs", tmp_path / "runs", "--out", tmp_path / "p.png")
        assert done.exit_code == 0, done.output
    log = [json.loads(line) for line in (nets / "seed0" / "log.jsonl").read_text().splitlines()]
    seconds = np.cumsum([epoch["seconds"] for epoch in log])
    results = [read(tmp_path / "runs" / "seed0" / f"epoch-{i:04d}") for i in (1, 2, 3)]
    snapshots = [Snapshot(float(s), r) for s, r in zip(seconds, results, strict=True)]
    (axes,) = progress_figure({"seed0": snapshots}).axes
    acr = [average_certified_radius(r.records) for r in results]
    assert list(axes.lines[0].get_ydata())[:3] == list(np.maximum.accumulate(acr))
    assert list(axes.lines[1].get_ydata()) == acr
    (tmp_path / "seed0").mkdir()
    (tmp_path / "seed0" / "log.jsonl").write_text((nets / "seed0" / "log.jsonl").read_text())
    refused = call(
        "figure", "progress", tmp_path / "seed0", "--data", "digits", "--runs", tmp_path / "r", "--out", "p.png"
    )
    assert "keeps no model" in refused.stderr
    refused = call("figure", "progress", nets / "seed0", nets / "seed0", "--data", "digits", "--runs", tmp_path / "r",
                   "--out", tmp_path / "p.png")  # fmt: skip
    assert "given twice" in refused.stderr


def test_images_under_the_first_noise_and_under_their_own(nets: Path, tmp_path: Path) -> None:
    model, run = nets / "seed0" / "model.safetensors", tmp_path / "own"
    made = call(
        "certify", "--model", model, "--data", "digits", "--limit", 6, "--n", 100, "--sigma-per-input", "bracket",
        "--out", run,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    done = call("figure", "noise", run, "--rows", 2, "--out", tmp_path / "noise.png")
    assert done.exit_code == 0, done.output
    fixed = tmp_path / "fixed"
    call("certify", "--model", model, "--data", "digits", "--limit", 1, "--n", 100, "--out", fixed)
    refused = call("figure", "noise", fixed, "--out", tmp_path / "no.png")
    assert (refused.exit_code, "has the same noise for all inputs" in refused.stderr) == (2, True), refused.output
    picture = np.zeros((3, 4, 4), dtype=np.uint8)
    drawn = noise_images_figure([NoisyImage("input 3", picture, picture, picture, 0.25, 0.125)], [])
    assert [axes.get_title() for axes in drawn.axes] == ["input 3", r"$\sigma_0$ = 0.25", r"$\sigma^*$ = 0.125"]
