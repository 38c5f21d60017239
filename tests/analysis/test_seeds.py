import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.analysis import MeanAndDeviation, Results, Settings, average, averages, by_method, summarise
from smoothcert.core.errors import InputError
from smoothcert.runs import DataConfig, ModelConfig, Record


def run(name: str, radii: list[float], seed: int = 0, sigma: float = 0.25, **more: object) -> Results:
    settings: dict[str, Any] = {
        "procedure": {"name": "fixed", "n": 100},
        "noise": {"name": "gaussian", "sigma": sigma},
        "seed": seed,
        "model": ModelConfig(files=(f"{name}.safetensors",), fingerprint=name, architecture={"name": "lenet"}),
        "classifier": {"kind": "LeNet", "fingerprint": name},
        **more,
    }
    return Results(name, tuple(Record(i, 1, 1, r) for i, r in enumerate(radii)), settings=Settings(**settings))


def test_runs_that_differ_in_seed_and_weights_are_one_method() -> None:
    a, b = run("a", [0.1], 0), run("b", [0.2], 1)
    other = run("c", [0.3], sigma=0.5)
    log = Results("log", a.records, settings=Settings(source="public log"))
    fewer = run("d", [0.1, 0.2], 2)
    other_data = run("e", [0.1], data=DataConfig(name="digits", split="test", size=1, fingerprint="x", distinct=1))
    groups = by_method([a, other, b, log, log, fewer, other_data])
    assert [[r.name for r in group] for group in groups] == [["a", "b"], ["c"], ["log"], ["log"], ["d"], ["e"]]


def test_what_follows_from_weights_or_is_of_one_run_is_no_method() -> None:
    """A digest of weights, how far int8 agrees with them, which memory, and what that memory did."""

    def compiled(name: str, seed: int, backend: str = "openvino-int8") -> Results:
        about = {"name": backend, "version": str(seed), "digest": name, "agreement": seed / 10, "calibration": "c"}
        classifier = {"fingerprint": name, "backend": about}
        return run(name, [0.1], seed, classifier=classifier, memory=name, note=f"{seed} were overruled")

    groups = by_method([compiled("a", 0), compiled("b", 1), compiled("c", 2, "openvino")])
    assert [[r.name for r in group] for group in groups] == [["a", "b"], ["c"]]


def test_mean_and_deviation_by_hand() -> None:
    runs = [run("seed-0", [0.2, 0.4], 0), run("seed-1", [0.4, 0.8], 1), run("seed-2", [0.9, 0.9], 2)]
    (got,) = averages(runs, [0.0, 0.5])
    assert got.names == ("seed-0", "seed-1", "seed-2")
    assert got.title == "mean of 3: seed*"
    assert got.acr.mean == pytest.approx(0.6)  # of 0.3, 0.6, 0.9
    assert got.acr.deviation == pytest.approx(0.3)
    assert got.accuracy[0] == MeanAndDeviation(1.0, 0.0)
    assert got.accuracy[1] == MeanAndDeviation(0.5, 0.5)  # of 0, 0.5, 1
    assert got.to_json([0.0, 0.5])["accuracy"][1] == {"radius": 0.5, "mean": 0.5, "deviation": 0.5}


@given(st.lists(st.floats(0, 10), min_size=2, max_size=6))
def test_spread_is_that_of_the_standard_library(values: list[float]) -> None:
    got = MeanAndDeviation.of(values)
    assert got.mean == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert got.deviation == pytest.approx(statistics.stdev(values), rel=1e-9, abs=1e-12)
    assert min(values) <= got.mean <= max(values)


def test_averages_stand_in_the_summary_when_asked_for() -> None:
    runs = [run("a", [0.2], 0), run("b", [0.4], 1)]
    assert summarise(runs).averages == ()
    summary = summarise(runs, [0.3], seeds=True)
    assert summary.averages == (average(runs, [0.3]),)
    assert summary.to_json()["averages"][0]["names"] == ["a", "b"]


def test_nothing_to_average_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no two runs are of the same method"):
        averages([run("a", [0.1]), run("b", [0.1], sigma=0.5)], [0.0])
    with pytest.raises(InputError, match="at least two values"):
        average([run("a", [0.1])], [0.0])
