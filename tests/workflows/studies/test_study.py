"""Studies: files that are refused in a sentence, and a small one from training to the table."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import smoothcert as sc
from smoothcert.models.networks.registry import ARCHITECTURES
from smoothcert.noise.ascent import searchable
from smoothcert.training.recipes.build import objective_of
from smoothcert.workflows.choices import NoiseChoice, SearchChoice
from smoothcert.workflows.each import AggregationChoice
from smoothcert.workflows.observer import Observer
from smoothcert.workflows.studies import load_study, study_names
from smoothcert.workflows.studies.certifying import procedure_of, runs_of
from smoothcert.workflows.studies.plan import plan
from smoothcert.workflows.studies.study import Published
from smoothcert.workflows.studies.sweep import swept

SMALL = """
title = "Two"
citation = "none"
radii = [0, 0.25]
baseline = "Gaussian"

[certify]
n = 100
limit = 4

[scale.digits]
recipe = "mnist-lenet-{method}-{sigma}-fast"
data = "digits"
epochs = 1
set = ["architecture=lenet"]

[[cell]]
name = "Gaussian"
method = "gaussian"
sigma = 0.25
seeds = [0, 1]
published = { acr = 0.5, accuracy = [99.5], more = { hours = 1.5 } }

[[cell]]
name = "two, K = 1"
method = "gaussian"
sigma = 0.25
seeds = [0, 1]
aggregation = "consensus:k=1"

[[cell]]
name = "weighted"
method = "gaussian"
sigma = 0.25
seeds = [0, 1]
aggregation = "softmax-voting"
weights = "convex"

[[cell]]
name = "staged"
method = "gaussian"
sigma = 0.25
certify = { procedure = "staged", radius = [0.1], n = 200 }

[[cell]]
name = "UE"
envelope = ["Gaussian", "two, K = 1"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.mark.parametrize("name", study_names())
def test_every_study_of_the_package_can_be_planned_at_every_scale(name: str) -> None:
    """Every recipe, network, aggregation and option that it names exists."""
    study = load_study(name)
    for scale in study.scale:
        found = plan(study, scale)
        assert found.rows
        assert runs_of(found, Path("out"))
        for row in found.rows:
            assert all(member.recipe is not None or member.file for member in row.members)
            how = row.certification
            if row.cell.aggregation:
                AggregationChoice.parse(row.cell.aggregation)
            noise = NoiseChoice(how.noise, row.cell.sigma, values=how.values).resolve({}, eight_bit=True)
            procedure = procedure_of(row).resolve()
            next(procedure.certify(noise))  # refuses radii that can never be shown
            if how.search is not None:
                SearchChoice(how.search.method, how.search.steps, how.search.draws).resolve(procedure)
                searchable(noise)
        for recipe, _ in found.trainings.values():
            ARCHITECTURES.find(recipe.architecture)
            assert objective_of(recipe).noise.strength > 0
    if study.baseline:
        assert any(cell.name == study.baseline.format(sigma=f"{cell.sigma:.2f}") for cell in study.cell)


def test_there_is_a_study_for_every_table() -> None:
    tables = {
        "macer": [1, 2, 3, 6, 7, 8, 10, 11, 12, 13],  # 9 is the settings of 10 to 13
        "sween": range(1, 10),
        "vrc": [1, 2, 3, 4, 5, *range(8, 16), *range(17, 26)],
        "liu": range(1, 9),
        "ddrs": range(1, 12),
    }
    wanted = {f"{paper}-{number}" for paper, numbers in tables.items() for number in numbers}
    assert wanted <= {*study_names()}
    for name in wanted:
        number = name.partition("-")[2]
        assert f"table {number}" in load_study(name).citation, name


def test_numbers_of_the_papers() -> None:
    """Spot checks by hand, of tables whose text is broken into columns: DDRS 4, 5, 7, 9; and of plain ones."""

    def row(study: str, name: str) -> Published:
        found = next(cell.published for cell in load_study(study).cell if cell.name == name)
        assert found is not None
        return found

    assert row("macer-1", "MACER-0.50") == Published(0.726, (66, 60, 53, 46, 38, 29, 19, 12, 0, 0))
    assert row("sween-1", "SWEEN-7, sigma 0.50").acr == 0.678
    assert row("vrc-11", "Gaussian, k = 50, sigma 0.25").accuracy[:4] == (80.4, 68.6, 52.8, 38.8)
    assert row("liu-1", "AdvMacer x1 + SmoothAdv x2, sigma 0.50").acr == 0.783
    assert row("ddrs-4", "Cohen-DS, sigma 0.50, K = 900").accuracy[4:7] == (27.55, 16.5, 7.37)
    assert row("ddrs-5", "Cohen-DS2, sigma 0.25, K = 900").accuracy[2:6] == (50.23, 25.57, 8.25, 2.83)
    assert row("ddrs-7", "SmoothAdv-DS2, sigma 0.25, K = 500").accuracy[4:7] == (23.16, 11.37, 0.04)
    assert row("ddrs-9", "MACER-DS2 (n = 1), sigma 0.50, K = 900").accuracy[5:] == (18.87, 12.29, 7.13, 3.69, 1.7, 0.51)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("n = 100", "n = ", "small.toml is no TOML"),
        ('title = "Two"', "", "does not name title"),
        ("sigma = 0.25", 'sigma = "a"', "must be a number"),
        ("limit = 4", "limits = 4", "'limits', which is no option of certify"),
        ('method = "gaussian"', 'methods = "gaussian"', "which this version does not know"),
        ('method = "gaussian"', 'method = "gauss"', "there is no recipe mnist-lenet-gauss-0.25-fast"),
        ('name = "two, K = 1"', 'name = "Gaussian"', "two rows are called 'Gaussian'"),
        ("accuracy = [99.5]", "accuracy = [1, 2, 3]", "more accuracies than the study has radii"),
        ('aggregation = "softmax-voting"', "", "say the aggregation"),
        (
            'envelope = ["Gaussian", "two, K = 1"]',
            'envelope = ["Gaussian", "three"]',
            "'three' and others, which is no row",
        ),
        ("sigma = 0.25", "", "needs a sigma above 0"),
        ("epochs = 1", 'epochs = 1\nset_ = ["a"]', "which this version does not know"),
    ],
)
def test_a_bad_file_is_one_sentence(file: Path, old: str, new: str, sentence: str) -> None:
    file.write_text(SMALL.replace(old, new, 1))
    with pytest.raises(sc.InputError, match=sentence) as refused:
        plan(load_study(file))
    assert "\n" not in str(refused.value)


def test_what_is_not_there_is_one_sentence(file: Path, tmp_path: Path) -> None:
    with pytest.raises(sc.InputError, match="there is no study 'macer-99'"):
        load_study("macer-99")
    with pytest.raises(sc.InputError, match="does not exist"):
        load_study(tmp_path / "none.toml")
    with pytest.raises(sc.InputError, match="--scale of small must be digits, got 'full'"):
        plan(load_study(file), "full")
    with pytest.raises(sc.InputError, match="is no folder of a study"):
        sc.study(file, out=tmp_path)


def test_a_sweep_has_every_row_with_each_value(file: Path) -> None:
    study = swept(load_study(file), ["objective.draws=1,2", "lr=0.05"])
    assert study.name == "small with objective.draws=1,2 with lr=0.05"
    assert [cell.name for cell in study.cell[:2]] == [f"Gaussian, objective.draws={draws}, lr=0.05" for draws in (1, 2)]
    assert study.baseline == study.cell[0].name
    with pytest.raises(
        sc.InputError, match=r"row 'Gaussian, objective.draws=1, lr=0.05' .* has no key 'objective.draws'"
    ):
        plan(study)
    found = plan(swept(load_study(file), ["batch_size=64,128"]))
    assert [row.members[0].recipe.batch_size for row in found.rows[:2] if row.members[0].recipe] == [64, 128]
    assert len({row.members[0].folder for row in found.rows[:2]}) == 2
    assert "epochs=2" in str(plan(swept(load_study(file), ["epochs=2"])).rows[0].members[0].recipe)
    for wrong in ("lr", "lr=", "lr=1,,2"):
        with pytest.raises(sc.InputError, match="--set takes key=value or key=value,value"):
            swept(load_study(file), [wrong])


def test_members_of_a_larger_ensemble_share_its_pass(file: Path) -> None:
    found = plan(load_study(file)).passes()
    assert [(len(one.members), sorted(one.wanted)) for one in found] == [(2, [(1, ""), (2, ""), (2, "consensus:k=1")])]


@pytest.fixture(scope="module")
def done_before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The study, done without an interruption."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.toml").write_text(SMALL)
    return folder / "out", sc.study(folder / "small.toml", out=folder / "out", jobs=1)


def test_a_study_from_training_to_the_table(file: Path, tmp_path: Path, done_before: tuple[Path, Any]) -> None:
    out, table = done_before
    assert [row.name for row in table.rows] == ["Gaussian", "two, K = 1", "weighted", "staged", "UE"]
    single, consensus, weighted, staged, best = table.rows
    assert staged.accuracy[1] is None, "it was asked about 0.1 and not about 0.25"
    assert staged.difference is None, "nor is its ACR one that can be compared"
    assert "–: the row was not asked about such radii" in table.markdown()
    assert best.acr.value == max(single.acr.value, consensus.acr.value)
    assert [at.value for at in best.accuracy] == [
        max(one.value, other.value) for one, other in zip(single.accuracy, consensus.accuracy, strict=True)
    ]
    assert single.deviation is not None
    assert single.difference is None
    assert consensus.difference is not None
    assert weighted.parameters == 2 * (single.parameters or 0)
    assert (single.flops or 0) > (single.parameters or 0)
    runs = runs_of(plan(load_study(file)), out)
    both = [sc.Run.open(path).summary().rows[0].acr for path in runs["Gaussian"]]
    assert single.acr.value == pytest.approx(sum(both) / 2, abs=1e-12)
    assert all(sc.Run.open(path).verify().holds for paths in runs.values() for path in paths)
    written = (out / "table.md").read_text()
    assert "[0.5]" in written
    assert "[99.5]" in written
    assert "published: hours 1.5" in written
    assert json.loads((out / "table.json").read_text())["rows"][0]["acr"]["value"] == single.acr.value
    assert "study: done" in (out / "progress.log").read_text()

    done = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.suffix in (".jsonl", ".safetensors")}
    again = sc.study(file, out=out, jobs=1, observer=_NoSteps())
    assert again == table
    assert {path: path.stat().st_mtime_ns for path in done} == done
    file.write_text(SMALL.replace('title = "Two"', 'title = "Two, corrected"'))
    assert sc.study(file, out=out).title == "Two, corrected"
    other = file.rename(tmp_path / "other.toml")
    with pytest.raises(sc.InputError, match="holds the study small at the scale digits"):
        sc.study(other, out=out)


class _NoSteps(Observer):
    """Nothing is left to do."""

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        raise AssertionError(note)


def test_killed_at_any_moment_it_goes_on_to_the_same_table(
    file: Path, tmp_path: Path, done_before: tuple[Path, Any]
) -> None:
    _, whole = done_before
    out = tmp_path / "killed"
    code = f"import smoothcert as sc; sc.study({str(file)!r}, out={str(out)!r}, jobs=1)"
    for seen in ("trained/*/seed0/model.safetensors", "certified/*/member-1/records.jsonl"):
        process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        while process.poll() is None and not list(out.glob(seen)):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert list(out.glob("trained/*/seed0/model.safetensors"))
    kept = next(out.glob("trained/*/seed0/model.safetensors"))
    before = kept.stat().st_mtime_ns
    table = sc.study(file, out=out, jobs=1)
    assert kept.stat().st_mtime_ns == before, "what was trained is not trained again"
    assert _numbers(table) == _numbers(whole)


def _numbers(table: Any) -> Any:
    return [(row.name, row.acr, row.accuracy, row.difference) for row in table.rows]


def test_the_study_for_newcomers(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from smoothcert.cli import app

    runner = CliRunner()
    listed = runner.invoke(app, ["study"])
    assert all(name in listed.stdout for name in ("digits", "Digits in seconds"))
    shown = runner.invoke(app, ["study", "digits"])
    assert "train mnist-lenet-gaussian-0.25-fast" in shown.stdout
    assert "seeds 0, 1" in shown.stdout
    refused = runner.invoke(app, ["study", "digits", "--scale", "full"])
    assert refused.exit_code == 2
    done = runner.invoke(app, ["study", "digits", "--out", str(tmp_path / "out"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "soft voting of two" in done.stdout
