"""Published logs in the package, and runs beside them."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

from smoothcert.analysis import Results, average_certified_radius, read, reanalyse
from smoothcert.analysis.board import PUBLISHED_DRAWS, PublishedLog, _of_fewer_draws, board, data_of, published
from smoothcert.analysis.settings import Settings
from smoothcert.cli import app
from smoothcert.core.errors import InputError
from smoothcert.models.zoo import zoo_model
from smoothcert.noise import Gaussian
from smoothcert.procedures import ABSTAIN, Certificate, Decision
from smoothcert.runs import DataConfig
from smoothcert.stats import Tally
from smoothcert.stats.binomial import lower_bound
from smoothcert.workflows import board as workflow

# Data, network, method, sigma, ACR over all images and over every 20th, as the README of the logs has them.
STATED = """
cifar10 resnet110 catrs 0.25 0.5616 0.5564
cifar10 resnet110 catrs 0.50 0.7571 0.7367
cifar10 resnet110 catrs 1.00 0.8148 0.8615
cifar10 resnet110 consistency 0.25 0.5519 0.5546
cifar10 resnet110 consistency 0.50 0.7195 0.7073
cifar10 resnet110 consistency 1.00 0.7563 0.7943
cifar10 resnet110 gaussian 0.25 0.4240 0.4234
cifar10 resnet110 gaussian 0.50 0.5251 0.5338
cifar10 resnet110 gaussian 1.00 0.5105 0.5382
cifar10 resnet110 macer 0.25 0.5313 0.5178
cifar10 resnet110 macer 0.50 0.6910 0.6676
cifar10 resnet110 macer 1.00 0.7441 0.7965
cifar10 resnet110 smoothadv 0.25 0.5444 0.5387
cifar10 resnet110 smoothadv 0.50 0.6841 0.6890
cifar10 resnet110 smoothadv 1.00 0.7896 0.8446
cifar10 resnet110 smoothmix 0.25 0.5534 0.5521
cifar10 resnet110 smoothmix 0.50 0.7356 0.7072
cifar10 resnet110 stability 0.25 0.4199 0.4269
cifar10 resnet110 stability 0.50 0.5312 0.5315
cifar10 resnet110 stability 1.00 0.5145 0.5455
cifar10 resnet110 sun2025 0.25 0.5642 0.5542
cifar10 resnet110 sun2025 0.50 0.7603 0.7442
cifar10 resnet110 sun2025 1.00 0.8437 0.8874
cifar10 resnet20 consistency-lam10 0.50 0.6864 0.6916
cifar10 resnet20 consistency-lam20 0.50 0.6867 0.6844
cifar10 resnet20 consistency-lam5 0.50 0.6651 0.6620
cifar10 resnet20 gaussian 0.50 0.5242 0.5324
cifar10 resnet20 macer 0.50 0.6607 0.6747
cifar10 resnet20 smoothadv-m2 0.50 0.6821 0.6974
cifar10 resnet20 smoothadv-m8 0.50 0.6924 0.6813
cifar10 resnet20 stability 0.50 0.4992 0.5231
mnist lenet catrs 0.25 0.9331 0.9239
mnist lenet catrs 0.50 1.6999 1.6862
mnist lenet catrs 1.00 1.8306 1.8306
mnist lenet consistency 0.25 0.9279 0.9177
mnist lenet consistency 0.50 1.6545 1.6347
mnist lenet consistency 1.00 1.7384 1.7316
mnist lenet gaussian 0.25 0.9105 0.8984
mnist lenet gaussian 0.50 1.5569 1.5351
mnist lenet gaussian 1.00 1.6187 1.6058
mnist lenet macer 0.25 0.9206 0.9077
mnist lenet macer 0.50 1.5826 1.5648
mnist lenet macer 1.00 1.5981 1.5941
mnist lenet smoothadv+consistency 0.25 0.9322 0.9224
mnist lenet smoothadv+consistency 0.50 1.6951 1.6791
mnist lenet smoothadv+consistency 1.00 1.8155 1.8068
mnist lenet smoothadv 0.25 0.9320 0.9190
mnist lenet smoothadv 0.50 1.6871 1.6689
mnist lenet smoothadv 1.00 1.7785 1.7693
mnist lenet smoothmix 0.25 0.9333 0.9231
mnist lenet smoothmix 0.50 1.6934 1.6769
mnist lenet smoothmix 1.00 1.8229 1.8111
mnist lenet stability 0.25 0.9143 0.9030
mnist lenet stability 0.50 1.5731 1.5541
mnist lenet stability 1.00 1.6364 1.6282
"""
ROWS = [line.split() for line in STATED.split("\n") if line]
ACR = {(data, network, method, float(sigma)): acr for data, network, method, sigma, *acr in ROWS}
EVERY_20TH = range(0, 10_000, 20)


def tsv(results: Results, path: Path) -> Path:
    rows = [f"{r.index}\t{r.label}\t{r.prediction}\t{r.radius}\t{int(r.correct)}\t0:00:01" for r in results.records]
    path.write_text("\n".join(["idx\tlabel\tpredict\tradius\tcorrect\ttime", *rows, ""]))
    return path


@pytest.mark.parametrize("key", ACR, ids=str)
def test_the_numbers_are_those_of_the_logs(key: tuple[str, str, str, float]) -> None:
    log = PublishedLog(*key)
    for indices, stated in zip((None, EVERY_20TH), ACR[key], strict=True):
        found = average_certified_radius(log.results(indices).records)
        assert abs(found - float(stated)) <= 5e-5 * (1 + 1e-9), "rounded to nearest"


@pytest.mark.parametrize(("number", "indices"), [(0, None), (1, EVERY_20TH)], ids=["all images", "every 20th"])
@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_every_number_that_is_printed_is_that_of_the_logs(data: str, number: int, indices: range | None) -> None:
    ours = dataclasses.replace(published(data)[0].results(indices), name="ours")
    shown = workflow.table(board([ours]))
    printed = dict(
        zip((name.plain for name in shown.names), (cell.plain for cell in shown.columns[0].cells), strict=True)
    )
    del printed["ours"]
    assert printed == {PublishedLog(*key).name: acr[number] for key, acr in ACR.items() if key[0] == data}


@pytest.mark.parametrize(("number", "indices"), [(0, range(10_000)), (1, EVERY_20TH)], ids=["all", "every 20th"])
def test_the_page_says_the_same(number: int, indices: range, tmp_path: Path) -> None:
    """ACRs as published, also that of a log that is added; and the differences, which a table has."""
    key = ("mnist", "lenet", "catrs", 0.5)
    added = tsv(PublishedLog(*key).results(indices), tmp_path / "added_sigma0.50.tsv")
    found = workflow.board([added], sigma=0.5)
    page = workflow.page(found, tmp_path / "page.html").read_text()
    model = json.loads(page.partition('<script type="application/json" id="model">')[2].partition("</script>")[0])
    stated = {PublishedLog(*key).name: acr[number] for key, acr in ACR.items() if (key[0], key[3]) == ("mnist", 0.5)}
    stated["added_sigma0.50"] = ACR[key][number]
    assert {run["name"]: run["acr"]["text"] for run in model["runs"]} == stated
    shown = workflow.table(found)
    assert [cell.plain for cell in shown.columns[0].cells] == [stated[name.plain] for name in shown.names]
    ahead = {run["name"]: "{text} ({low} to {high})".format(**run["ahead"]) for run in model["runs"][1:]}
    names, cells = [name.plain for name in shown.names], [cell.plain for cell in shown.columns[1].cells]
    assert dict(zip(names, cells, strict=True)) == ahead | {"added_sigma0.50": ""}
    assert model["runs"][0]["ahead"] == {"value": None, "text": ""}
    assert all("Jeong" in run["claims"] for run in model["runs"][1:])


def test_a_run_of_fewer_draws_is_told() -> None:
    run = read(zoo_model("mnist-0.50").run)
    assert "100,000 draws per image" in str(workflow.table(board([run])).caption)
    assert "run has 1,000, and so shows smaller radii" in str(workflow.table(board([run])).caption)


@pytest.mark.parametrize("draws", [1000, 10_000, 100_000])
def test_a_log_of_fewer_draws_is_what_its_votes_would_show(draws: int) -> None:
    """Votes are drawn here, radii rounded as the logs have them, and the counts found again: no bias is left."""
    sigma, p = 0.5, np.concatenate([np.linspace(0.4, 1, 4000), 1 - np.geomspace(1e-6, 0.1, 2000)])
    votes = np.random.default_rng(0).binomial(PUBLISHED_DRAWS, p)
    noise = Gaussian(sigma=sigma)

    def shown(counts: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.float64]:
        known = {k: noise.radius(lower_bound(int(k), n, 0.001)) for k in np.unique(counts)}
        return np.array([known[k] for k in counts])

    exact = shown(votes, PUBLISHED_DRAWS)
    rounded = np.array([float(f"{radius:.3g}") for radius in exact])
    found = _of_fewer_draws(rounded, sigma, draws, 0.001)
    if draws == PUBLISHED_DRAWS:
        assert np.all(np.abs(found - exact) <= 0.0101)
        assert abs(np.mean(found - exact)) < 0.0002 < np.mean(np.abs(rounded - exact))
        assert found.max() == exact.max() < rounded.max(), "the largest radius stood there rounded up"
    else:
        again = shown(np.random.default_rng(1).hypergeometric(votes, PUBLISHED_DRAWS - votes, draws), draws)
        apart = found - again
        assert abs(apart.mean()) < 4 * apart.std() / len(p) ** 0.5
        assert found.max() == noise.radius(lower_bound(draws, draws, 0.001))


def test_a_run_is_put_beside_logs_of_as_many_draws(tmp_path: Path) -> None:
    run = read(zoo_model("mnist-0.50").run)
    found = workflow.board([zoo_model("mnist-0.50").run], sigma=0.5, same_draws=True)
    assert (found.recounted, workflow.to_json(found)["same_draws"]) == ((1000, 0.001), 1000)
    page = workflow.page(found, tmp_path / "page.html").read_text()
    for text in (str(workflow.table(found).caption), page):
        assert "those of 1,000 of the 100,000 votes, inferred from the published radii, at alpha 0.001" in text
        assert "100,000 draws" not in text
    top = Gaussian(sigma=0.5).radius(lower_bound(1000, 1000, 0.001))
    for log, rows, comparison in zip(found.logs, found.published, found.against, strict=True):
        assert max(record.radius for record in rows.records) == top
        assert rows.records == log.results(EVERY_20TH, draws=1000).records
        assert rows.records[::2] == log.results(EVERY_20TH[::2], draws=1000).records
        assert all(record.prediction == ABSTAIN for record in rows.records if not record.radius)
        ours = average_certified_radius(run.records)
        assert comparison.acr_difference == pytest.approx(ours - average_certified_radius(rows.records))


def test_runs_of_other_draws_are_refused_where_the_same_are_wanted() -> None:
    run = read(zoo_model("mnist-0.50").run)
    of_draws = {"name": "fixed", "alpha": 0.001}
    for procedure, message in (
        (of_draws | {"n": 500}, "same number of draws.*has 500 at alpha 0.001"),
        (of_draws | {"n": 1000, "alpha": 0.01}, "has 1,000 at alpha 0.01"),
        (of_draws | {"n": 200_000}, "at most 100,000"),
        ({"name": "sequential"}, "took other numbers of draws"),
        (None, "is a public log"),
    ):
        other = dataclasses.replace(run, name="other", settings=dataclasses.replace(run.settings, procedure=procedure))
        with pytest.raises(InputError, match=message):
            board([run, other], same_draws=True)


def test_logs_are_recounted_at_the_alpha_of_the_run() -> None:
    """A run at alpha .05 shows larger radii; beside logs at .001 it would be ahead for nothing."""
    run = read(zoo_model("mnist-0.50").run)
    loose = reanalyse(run, alpha=0.05)
    strict_ahead, loose_ahead = (
        [c.acr_difference for c in board([one], sigma=0.5, same_draws=True).against] for one in (run, loose)
    )
    assert average_certified_radius(loose.records) - average_certified_radius(run.records) > 0.1
    assert np.abs(np.subtract(loose_ahead, strict_ahead)).max() < 0.02


def test_answers_whose_radius_was_rounded_to_0_stay_answers_with_all_draws() -> None:
    log = PublishedLog("cifar10", "resnet20", "gaussian", 0.5)
    plain, again = log.results().records, log.results(draws=PUBLISHED_DRAWS).records
    assert any(record.prediction != ABSTAIN and not record.radius for record in plain)
    assert [record.prediction for record in again] == [record.prediction for record in plain]


def test_every_log_has_a_source_and_the_official_labels() -> None:
    logs = published()
    assert {dataclasses.astuple(log) for log in logs} == set(ACR)
    assert len(logs) == 55
    assert {log.data for log in logs} == {"mnist", "cifar10"}
    assert all("logs" in log.source for log in logs)
    for log in logs[::9]:
        assert data_of(log.results(EVERY_20TH)) == log.data


def test_a_run_is_compared_image_by_image(tmp_path: Path) -> None:
    ours = PublishedLog("mnist", "lenet", "smoothmix", 0.5).results(EVERY_20TH)
    found = board([read(tsv(ours, tmp_path / "ours.tsv"))], sigma=0.5)
    assert (found.data, found.inputs) == ("mnist", 500)
    by_method = {log.method: comparison for log, comparison in zip(found.logs, found.against, strict=True)}
    assert by_method["smoothmix"].acr_difference == 0
    other = PublishedLog("mnist", "lenet", "gaussian", 0.5).results(EVERY_20TH)
    gains = [[r.radius * r.correct for r in results.records] for results in (ours, other)]
    wanted = float(np.mean(np.subtract(*gains)))
    assert by_method["gaussian"].acr_difference == pytest.approx(wanted, abs=1e-12)
    low, high = by_method["gaussian"].acr_interval.low, by_method["gaussian"].acr_interval.high
    assert low < wanted < high


def test_packaged_images_are_found_in_the_official_order() -> None:
    log = PublishedLog("mnist", "lenet", "catrs", 0.5)
    records = [dataclasses.replace(r, index=r.index // 20) for r in log.results(EVERY_20TH).records]
    about = Settings(data=DataConfig(name="mnist500", split="test", size=500, distinct=500, fingerprint="f"))
    found = board([Results("mine", tuple(records), settings=about)], sigma=0.5, network="lenet")
    assert {c.acr_difference for log, c in zip(found.logs, found.against, strict=True) if log.method == "catrs"} == {
        0.0
    }


def test_other_images_are_refused() -> None:
    good = PublishedLog("mnist", "lenet", "catrs", 0.5).results(range(0, 10_000, 100))
    wrong = tuple(dataclasses.replace(r, label=(r.label + 1) % 10) for r in good.records)
    for records in (wrong, good.records[:5]):
        with pytest.raises(InputError, match="is not about at least 20 test images of"):
            board([Results("mine", records)])
    with pytest.raises(InputError, match="no log of mnist with this sigma and network"):
        board([good], sigma=0.3)
    elsewhere = PublishedLog("mnist", "lenet", "catrs", 0.5).results(range(1, 10_000, 100))
    with pytest.raises(InputError, match="no images in common"):
        board([good, elsewhere])


def test_images_that_share_nothing_but_labels_are_refused() -> None:
    good = PublishedLog("mnist", "lenet", "catrs", 0.5).results(EVERY_20TH)
    about = DataConfig(name="mnist-binary", split="test", size=10_000, distinct=500, fingerprint="f")
    resized = dataclasses.replace(about, name="photos", preprocessing={"resize": "28x28"})
    for data in (about, resized):
        with pytest.raises(InputError, match="other images than the published logs, though they have the same labels"):
            board([dataclasses.replace(good, settings=Settings(data=data))])


def test_what_was_not_asked_is_not_zero() -> None:
    """A run that decided one radius says nothing about larger ones, and its ACR is no ACR."""
    answers = (("choose", Tally((1, 0))),)
    decided = Certificate(
        label=0, radius=0.5, reason="", alpha=0.001, procedure={}, norm="l2", p_lower=0.9, answers=answers,
        decisions=(Decision(0.5, True, 1, 1),),
    )  # fmt: skip
    records = [
        dataclasses.replace(r, radius=min(r.radius, 0.5), claim=decided)
        for r in PublishedLog("mnist", "lenet", "catrs", 0.5).results(EVERY_20TH).records
    ]
    mine = Results("mine", tuple(records), settings=Settings(norm="l2", procedure={"radius": 0.5}))
    found = board([mine], sigma=0.5, network="lenet")
    shown = workflow.table(found, [0.25, 0.5, 0.75])
    cells = {column.title: column.cells[-1].plain for column in shown.columns}
    assert cells["0.75"] == "–"
    assert float(cells["0.5"]) > 90
    assert {column.title: {cell.plain for cell in column.cells} for column in shown.columns}["mine is ahead by"] == {
        "", "–",
    }  # fmt: skip
    assert "not asked about such radii" in str(shown.caption)
    assert not any(row["same_question"] for row in workflow.to_json(found)["published"])


def test_the_command(tmp_path: Path) -> None:
    log = tsv(PublishedLog("cifar10", "resnet20", "gaussian", 0.5).results(range(0, 10_000, 100)), tmp_path / "a.tsv")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(
        app, ["board", str(log), "--network", "resnet20", "--out", str(page)], env={"COLUMNS": "50"}
    )
    assert done.exit_code == 0, done.output
    assert "smoothadv-m8" in done.stdout
    assert "Jeong & Shin 2020" in done.stdout
    assert "consistency-lam10" in page.read_text()
    done = CliRunner().invoke(app, ["board", str(log), "--json"])
    content = json.loads(done.stdout)
    assert content["inputs"] == 100
    assert {row["network"] for row in content["published"]} == {"resnet20", "resnet110"}
    done = CliRunner().invoke(app, ["board", str(log), "--out", str(tmp_path / "page.pdf")])
    assert (done.exit_code, "must end in .html" in done.stderr) == (2, True)
