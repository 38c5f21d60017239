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
from smoothcert.core.plugins import load_plugin
from smoothcert.models.networks.registry import ARCHITECTURES
from smoothcert.noise.ascent import searchable
from smoothcert.training.recipes.build import objective_of
from smoothcert.workflows.choices import NoiseChoice, SearchChoice
from smoothcert.workflows.each import AggregationChoice
from smoothcert.workflows.observer import Observer
from smoothcert.workflows.studies import load_study, study_names
from smoothcert.workflows.studies.certifying import procedure_of, runs_of
from smoothcert.workflows.studies.cost import cost
from smoothcert.workflows.studies.plan import plan
from smoothcert.workflows.studies.study import Cell, Published
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
published = { acr = 0.5, accuracy = ["-", 99.5], more = { hours = 1.5 } }

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
            procedure = procedure_of(how).resolve()
            next(procedure.certify(noise))  # refuses radii that can never be shown
            if how.search is not None:
                SearchChoice(how.search.method, how.search.steps, how.search.draws).resolve(procedure)
                searchable(noise)
        for recipe, _ in found.trainings.values():
            ARCHITECTURES.find(recipe.architecture)
            assert objective_of(recipe).noise.strength > 0
        total = cost(found).total
        assert total is not None, "a stranger sees what it costs before it is begun"
        assert total > 0
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
    assert row("ddrs-6", "Cohen-DS2, sigma 1.00, K = 400").accuracy[6:] == (24.8, 21.2, 16.8, 11, 2)
    assert row("ddrs-8", "SmoothAdv-DS2, sigma 0.50, K = 100").accuracy[4:7] == (48.2, 43, 7.8)
    assert row("vrc-21", "radius 1, sigma 0.50").accuracy == ("-", "-", "-", "-", 30.2)
    assert row("vrc-24", "Consistency, radius 0.75, stages 1000,110000").more == {"SampleRF": 1.52}


def test_a_best_row_of_a_paper_follows_from_its_own_rows() -> None:
    """DDRS prints the best of sigmas and K twice: in detail, and rounded to a decimal in its first tables."""
    detail = {"Cohen": 4, "Cohen-DS": 4, "Cohen-DS2": 5, "SmoothAdv": 7, "SmoothAdv-DS": 7, "SmoothAdv-DS2": 7}
    for method, number in (detail | {"MACER": 9, "MACER-DS": 9, "MACER-DS2 (n = 8)": 10}).items():
        rows = [_said(cell) for cell in load_study(f"ddrs-{number}").cell if cell.name.startswith(f"{method}, ")]
        short = method.removesuffix(" (n = 8)")
        summary = load_study({"C": "ddrs-1", "S": "ddrs-2", "M": "ddrs-3"}[method[0]])
        best = next(_said(cell) for cell in summary.cell if cell.name == f"best of {short}")
        found = [max(at) for at in zip(*rows, strict=True)]
        assert best == pytest.approx(found[: len(best)], abs=0.0601), method
    for number in (6, 8):
        study = load_study(f"ddrs-{number}")
        for cell in (cell for cell in study.cell if cell.envelope):
            rows = [_said(one) for one in study.cell if one.name in cell.envelope]
            assert [max(at) for at in zip(*rows, strict=True)][:10] == _said(cell), cell.name


def _said(cell: Cell) -> list[float]:
    assert cell.published is not None
    return [float(share) for share in cell.published.accuracy]


def test_studies_are_listed_in_the_order_of_the_tables() -> None:
    names = study_names()
    assert names.index("ddrs-2") < names.index("ddrs-10") < names.index("macer-1") < names.index("macer-2")


def test_what_a_recipe_goes_on_with_is_trained_first(file: Path) -> None:
    file.write_text(
        SMALL.replace('"mnist-lenet-{method}-{sigma}-fast"', '"mnist-lenet-{method}-{sigma}"')
        .replace('method = "gaussian"', 'method = "macer-tune"', 1)
        .replace("sigma = 0.25", "sigma = 0.5")
    )
    found = plan(load_study(file))
    assert [(folder.rpartition("-")[0], seeds) for folder, (_, seeds) in found.trainings.items()] == [
        ("mnist-lenet-gaussian-0.50", [0, 1]),
        ("mnist-lenet-macer-tune-0.50", [0, 1]),
    ]
    start = found.start_of(found.rows[0].members[1].folder)
    assert start == found.rows[1].members[1], "that of its own seed, which other rows have, too"
    assert found.start_of(start.folder) is None


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
        ('accuracy = ["-", 99.5]', "accuracy = [1, 2, 3]", "more accuracies than the study has radii"),
        ('accuracy = ["-", 99.5]', "accuracy = [101]", 'must be a percentage, or "-" for none, got 101'),
        ('accuracy = ["-", 99.5]', 'accuracy = ["none"]', "must be a percentage, or \"-\" for none, got 'none'"),
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
    assert "core-hours at this scale: training under 0.01, certifying under 0.01" in shown.stdout
    refused = runner.invoke(app, ["study", "digits", "--scale", "full"])
    assert refused.exit_code == 2
    done = runner.invoke(app, ["study", "digits", "--out", str(tmp_path / "out"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "soft voting of two" in done.stdout


ROUTED = """
title = "Routed"
citation = "none"
radii = [0.1]
baseline = "small"

[certify]
n = 100
limit = 4

[scale.digits]
recipe = "mnist-lenet-{method}-{sigma}-fast"
data = "digits"
epochs = 1
set = ["architecture=perceptron", "batch_size=500", "chunk=500"]

[[cell]]
name = "small"
method = "gaussian"
sigma = 0.25
seeds = [0, 1]

[[cell]]
name = "wide"
method = "gaussian"
sigma = 0.5

[[cell]]
name = "oracle"
oracle = ["small", "wide"]

[[cell]]
name = "routed"
method = "consistency"
sigma = 0.5
neighbours = 3
routes = [{ method = "gaussian", sigma = 0.25, seeds = [0, 1] }, { method = "gaussian", sigma = 0.5 }]

[[cell]]
name = "pairs"
method = "gaussian"
sigma = 0.25
seeds = [0, 1, 2, 3]
aggregation = "softmax-voting"
groups = 2

[[cell]]
name = "pairs, weights per input"
method = "gaussian"
sigma = 0.25
seeds = [0, 1, 2, 3]
aggregation = "softmax-voting"
groups = 2
baseline = "pairs"
certify = { own_weights = { method = "ratio", draws = 10 } }

[[cell]]
name = "signed weights"
method = "gaussian"
sigma = 0.25
seeds = [0, 1]
aggregation = "soft-voting"
weights = "signed"
"""


@pytest.fixture(scope="module")
def routed_study(forgotten: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    load_plugin(Path(__file__).parents[2] / "plugins" / "my_architecture.py")
    folder = tmp_path_factory.mktemp("routed")
    (folder / "routed.toml").write_text(ROUTED)
    return folder, sc.study(folder / "routed.toml", out=folder / "out", jobs=1)


def test_a_study_with_a_router_an_oracle_and_groups(routed_study: tuple[Path, Any]) -> None:
    folder, table = routed_study
    rows = {row.name: row for row in table.rows}
    runs = runs_of(plan(load_study(folder / "routed.toml")), folder / "out")
    assert {name: len(paths) for name, paths in runs.items()} == {
        "small": 2, "wide": 1, "routed": 1, "pairs": 2, "pairs, weights per input": 2, "signed weights": 1
    }  # fmt: skip
    assert all(sc.Run.open(path).verify().holds for paths in runs.values() for path in paths)
    routed = sc.Run.open(runs["routed"][0])
    assert routed.config.routing is not None
    assert routed.config.routing.strengths == (0.25, 0.5)
    assert [member.members for member in routed.config.routing.members] == [2, 1]
    (router,) = plan(load_study(folder / "routed.toml")).routers
    assert sc.load_model(router.path(folder / "out")).details["routes"]["neighbours"] == 3
    alone = [sc.Run.open(runs[name][0]).results() for name in ("small", "wide")]
    assert rows["oracle"].acr.value == pytest.approx(
        sc.analysis.average_certified_radius(sc.analysis.oracle(alone).records)
    )
    assert any("for each input the result with the largest correct radius" in said for said in rows["oracle"].cost)
    assert any("if every choice held everywhere" in said for said in rows["routed"].cost)
    assert any(note.startswith("oracle: ACR +") for note in table.notes)
    assert rows["pairs"].deviation is not None
    assert rows["pairs, weights per input"].difference is not None
    assert (rows["small"].draws, rows["small"].evaluations) == (200, 200)
    assert (rows["pairs"].draws, rows["pairs"].evaluations) == (200, 400)
    assert rows["pairs, weights per input"].evaluations == pytest.approx(420, abs=200)  # a weight of 0 is not asked
    assert rows["routed"].draws is not None
    assert 200 <= rows["routed"].draws <= 400


def test_networks_that_were_trained_before_are_taken(routed_study: tuple[Path, Any], tmp_path: Path) -> None:
    folder, table = routed_study
    again = sc.study(folder / "routed.toml", out=tmp_path / "out", trained=[folder / "out" / "trained"], jobs=1)
    assert _numbers(again) == _numbers(table)
    old, new = (
        sorted((place / "trained").glob("*gaussian*/*/model.safetensors"))
        for place in (folder / "out", tmp_path / "out")
    )
    assert len(old) == 5
    assert [file.read_bytes() for file in old] == [file.read_bytes() for file in new]
    log = (tmp_path / "out" / "progress.log").read_text()
    assert "train mnist-lenet-gaussian" not in log
    with pytest.raises(sc.InputError, match="has no network with the recipe, seed and data of one of this study"):
        sc.study(folder / "routed.toml", out=tmp_path / "other", trained=["zoo:mnist-0.50"])
    with pytest.raises(sc.InputError, match="does not exist; give a checkpoint, or a folder of trainings"):
        sc.study(folder / "routed.toml", out=tmp_path / "third", trained=[tmp_path / "none"])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("groups = 2", "groups = 3", "has 4 members, which are not 3 equal groups"),
        ("neighbours = 3", "seeds = [0, 1]", "one seed for its router, and a sigma for each"),
        ('baseline = "pairs"', 'baseline = "none"', "is compared with 'none', which is no row"),
        ('oracle = ["small", "wide"]', 'oracle = ["small", "none"]', "'none' and others, which is no row"),
        ("seeds = [0, 1]\n\n", "seeds = [0, 1]\nneighbours = 3\n\n", "neighbours, which go with routes"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    (tmp_path / "routed.toml").write_text(ROUTED.replace(old, new, 1))
    with pytest.raises(sc.InputError, match=sentence):
        load_study(tmp_path / "routed.toml")


class _NoSteps(Observer):
    """Nothing is left to do."""

    def advanced(self, task: str, *, done: int, total: int | None, note: str) -> None:
        raise AssertionError(note)
