"""The logs that the authors published, against the numbers that were worked out from them."""

from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from smoothcert.analysis import (
    average_certified_radius,
    certified_accuracy,
    compare,
    leaderboard,
    on_shared_inputs,
    oracle,
    read,
    subset_warnings,
    summarise,
    upper_envelope,
)
from smoothcert.present import latex
from smoothcert.stats.rounding import percent

PLACES = [parent / "shared" / "logs" for parent in Path(__file__).resolve().parents[3:]]
LOGS = next((place for place in PLACES if place.is_dir()), PLACES[0])
COHEN = "cohen_cifar10_resnet110_sigma0.25"

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the public logs are not beside the project")


# ACR as in the README of the logs, rounded to nearest there
@pytest.mark.parametrize(
    ("name", "rows", "acr"),
    [
        (COHEN, 500, 0.4289),
        ("cohen_cifar10_resnet110_sigma0.50", 500, 0.5375),
        ("cohen_cifar10_resnet110_sigma1.00", 500, 0.5417),
        ("cohen_imagenet_resnet50_sigma0.25_truncated", 427, 0.4765),
        ("gaussian_mnist_lenet_sigma0.25", 10_000, 0.9105),
        ("gaussian_mnist_lenet_sigma0.50", 10_000, 1.5591),
        ("gaussian_mnist_lenet_sigma1.00", 10_000, 1.6187),
        ("smoothmix_mnist_lenet_sigma0.50", 10_000, 1.6927),
    ],
)
def test_average_certified_radius(name: str, rows: int, acr: float) -> None:
    results = read(LOGS / f"{name}.tsv")
    assert len(results.records) == rows
    assert round(average_certified_radius(results.records), 4) == acr
    assert "rounded radii to 3 digits" in str(results.settings.note)
    assert len(results.warnings) == ("truncated" in name)


def test_certified_accuracy_of_cohen() -> None:
    records = read(LOGS / f"{COHEN}.tsv").records
    assert [percent(a) for a in certified_accuracy(records, [0, 0.25, 0.5, 0.75])] == ["74.8", "60.0", "42.8", "26.6"]


def test_the_truncated_log_is_named() -> None:
    results = read(LOGS / "cohen_imagenet_resnet50_sigma0.25_truncated.tsv")
    assert results.warnings == (
        "427 rows, every 100th input, last index 42600: truncated? every 100th of 50000 (ImageNet) would be 500 rows",
    )


def test_every_20th_of_mnist() -> None:
    # the README: every 20th image only: .8984 / 1.5424 / 1.6058
    mnist = [read(LOGS / f"gaussian_mnist_lenet_sigma{sigma}.tsv") for sigma in ("0.25", "0.50", "1.00")]
    every_20th = [[r for r in results.records if r.index % 20 == 0] for results in mnist]
    assert [round(average_certified_radius(records), 4) for records in every_20th] == [0.8984, 1.5424, 1.6058]


def test_mnist_beside_cifar_is_no_comparison() -> None:
    both = [read(LOGS / f"{name}.tsv") for name in (COHEN, "gaussian_mnist_lenet_sigma0.25")]
    first, second = subset_warnings(both)
    assert "500 are shared by all" in first
    assert "not of the same data" in second
    assert {row.inputs for row in summarise(on_shared_inputs(both)).rows} == {500}


def test_the_table_of_cohen_in_latex() -> None:
    # methods.md, section 6, rounded down here: .4289 is .42887 and .5417 is .54165
    logs = [read(LOGS / f"cohen_cifar10_resnet110_sigma{sigma}.tsv") for sigma in ("0.25", "0.50", "1.00")]
    lines = latex(summarise(logs, [0, 0.25, 0.5, 0.75])).replace(r"\textbf", "").replace("{", "").replace("}", "")
    first = next(line for line in lines.splitlines() if line.startswith(r"cohen\_cifar10\_resnet110\_sigma0.25"))
    assert first.removesuffix(r" \\").split(" & ")[1:] == ["0.4288", "74.8", "60.0", "42.8", "26.6"]
    assert "& 0.5375 &" in lines
    assert "& 0.5416 &" in lines


def test_the_folder_is_a_leaderboard_per_data_set() -> None:
    """All logs below it, the gzipped ones included: those of one data set side by side, the largest ACR first."""
    board = leaderboard([LOGS])
    assert board.skipped == ()
    names = [result.name for result in board.results]
    assert sorted(names) == sorted(path.name.removesuffix(".gz").removesuffix(".tsv") for path in LOGS.rglob("*.tsv*"))
    data_sets = [next(data for data in ("mnist", "cifar10", "imagenet") if data in name) for name in names]
    assert (
        list(dict.fromkeys(data_sets)) == [data for data, _ in groupby(data_sets)] == ["mnist", "cifar10", "imagenet"]
    )
    radii = [average_certified_radius(result.records) for result in board.results]
    for _, group in groupby(zip(data_sets, radii, strict=True), key=itemgetter(0)):
        in_order = [radius for _, radius in group]
        assert in_order == sorted(in_order, reverse=True)


def test_smoothmix_against_its_baseline() -> None:
    a, b = (read(LOGS / f"{name}_mnist_lenet_sigma0.50.tsv") for name in ("smoothmix", "gaussian"))
    got = compare(a, b, [0.0, 1.75])
    assert got.inputs == 10_000
    assert got.acr_difference == pytest.approx(1.6927 - 1.5591, abs=1e-4)
    assert got.acr_interval.low > 0.12, "paired: far shorter than the intervals of either"
    clean, far = got.accuracy
    assert clean.interval.high < 0 < far.interval.low, "it pays with accuracy at 0"


def test_the_envelope_over_sigmas() -> None:
    """Worked out with awk from the three files: column by column the largest of
    74.8 60.0 42.8 26.6 0 / 65.2 54.6 41.4 32.0 23.4 / 47.2 39.2 34.0 27.8 21.6 and of .42888, .53753, .54166.
    """
    logs = [read(LOGS / f"cohen_cifar10_resnet110_sigma{sigma}.tsv") for sigma in ("0.25", "0.50", "1.00")]
    envelope = upper_envelope(logs, [0, 0.25, 0.5, 0.75, 1.0])
    assert round(envelope.acr, 5) == 0.54166
    assert [percent(share.value) for share in envelope.accuracy if share] == ["74.8", "60.0", "42.8", "32.0", "23.4"]
    assert [str(of)[-4:] for of in envelope.accuracy_of] == ["0.25", "0.25", "0.25", "0.50", "0.50"]
    best = oracle(logs)
    assert len(best.records) == 500
    # per input the largest radius among the correct: far above what any of them reaches
    assert round(average_certified_radius(best.records), 4) == 0.7631
