"""SampleRF, TimeRF and the shares per step, by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulated_runs import simulated_config

from smoothcert.analysis import read_all, summarise
from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.present import markdown
from smoothcert.procedures import Ask, Fixed, Procedure, Staged, converse
from smoothcert.runs import DataConfig, Record, Run
from smoothcert.stats import Tally


def write(path: Path, procedure: Procedure, shares: list[float], seconds: float, **more: Any) -> Path:
    """A run whose input i gets this share of votes for class 0, in every wish."""
    about = {"procedure": procedure.describe(), "noise": {}, "classifier": {}} | more
    run = Run.start(path, simulated_config(range(len(shares)), **about))
    with run.writing() as writer:
        for i, share in enumerate(shares):

            def draw(ask: Ask, share: float = share) -> Tally:
                return Tally((round(ask.n * share), ask.n - round(ask.n * share)))

            made = converse(procedure.certify(Gaussian(0.25)), draw)
            writer.append(Record.of(i, 0, replace(made, classifier=more.get("classifier", {})), seconds))
    return path


def data(name: str, fingerprint: str) -> DataConfig:
    return DataConfig(name=name, split="test", size=1, fingerprint=fingerprint, distinct=1)


def test_shares_and_factors(tmp_path: Path) -> None:
    staged = Staged(radius=0.25, stages=(100, 1_000, 120_000), n0=100)  # p0 = .841
    shares = [1.0, 1.0, 0.4, 0.9]  # certified in stage 1 twice, given up by the choice, certified in 2
    a = write(tmp_path / "staged", staged, shares, 0.5)
    b = write(tmp_path / "fixed", Fixed(n=100_000), shares, 20.0)
    summary = summarise(read_all([a, b]))
    saved, none = (row.savings for row in summary.rows)
    assert none is None, "the measure itself saves nothing"
    assert saved is not None
    assert [(s.number, s.certified, s.given_up) for s in saved.steps] == [(1, 0.5, 0.25), (2, 0.25, 0.0)]
    assert saved.mean_draws == (2 * (16 + 100) + 64 + (32 + 100 + 1_000)) / 4 == 357
    assert saved.sample_rf == pytest.approx(staged.fixed_draws() / 357)
    assert saved.time_rf == 40.0
    spread = summary.rows[0].draws_interval
    assert spread is not None
    assert 64 <= spread.low < 357 < spread.high <= 1_132, "draws have an interval where inputs differ"
    assert f"357 ({spread.low:,.0f}-{spread.high:,.0f})" in markdown(summary)
    assert "| 100,100 |" in markdown(summary), "and none where they do not"
    (line,) = summary.costs
    assert line.startswith("staged: SampleRF 2")
    assert "(357 draws per input for 103,633 of fixed n), TimeRF 40.0 (against fixed); " in line
    assert line.endswith("; % certified + given up at step 1: 50.0+25.0, 2: 25.0+0.0")
    assert line in markdown(summary)
    assert "only the given radii were decided (0.25)" in summary.notes[0]
    assert summary.to_json()["rows"][0]["savings"]["sample_rf"] == saved.sample_rf


def test_without_a_fixed_run_there_is_no_time_to_compare(tmp_path: Path) -> None:
    staged = Staged(radius=0.25, stages=(100, 1_000, 120_000), n0=100)
    (row,) = summarise(read_all([write(tmp_path / "staged", staged, [1.0], 0.5)])).rows
    assert row.savings is not None
    assert row.savings.time_rf is None


@pytest.mark.parametrize("other", [{"data": data("cifar10", "b")}, {"classifier": {"kind": "b"}}])
def test_the_time_of_other_data_or_another_model_is_no_measure(tmp_path: Path, other: dict[str, Any]) -> None:
    staged = Staged(radius=0.25, stages=(100, 1_000, 120_000), n0=100)
    about: dict[str, Any] = {"data": data("mnist", "a"), "classifier": {"kind": "a"}}
    a = write(tmp_path / "staged", staged, [1.0], 0.5, **about)
    b = write(tmp_path / "other", Fixed(n=100_000), [1.0], 10.0, **(about | other))
    c = write(tmp_path / "fixed", Fixed(n=100_000), [1.0], 20.0, **about)
    for runs, time_rf in (([a, b], None), ([a, b, c], 40.0)):
        saved = summarise(read_all(runs)).rows[0].savings
        assert saved is not None
        assert saved.time_rf == time_rf


def test_the_baseline_is_the_run_that_is_named(tmp_path: Path) -> None:
    """A consensus draws as much as the full ensemble and takes half the time: against itself it would save nothing."""
    ensemble, consensus = ({"classifier": {"aggregation": name}} for name in ("soft-voting", "consensus"))
    full = write(tmp_path / "full", Fixed(n=1_000), [1.0, 0.9], 3.0, **ensemble)
    quick = write(tmp_path / "quick", Fixed(n=1_000), [1.0, 0.9], 1.5, **consensus)
    staged = Staged(radius=0.25, stages=(100, 1_200), n0=100)
    both = write(tmp_path / "both", staged, [1.0, 1.0], 0.5, **consensus)
    runs = read_all([full, quick, both])
    assert [row.savings is None for row in summarise(runs).rows] == [True, True, False]
    summary = summarise(runs, against=runs[0])
    none, some, more = (row.savings for row in summary.rows)
    assert none is None, "nothing is saved against itself"
    assert some is not None
    assert (some.against, some.sample_rf, some.time_rf, some.time_against) == ("full", 1.0, 2.0, "full")
    assert more is not None
    assert (more.sample_rf, more.time_rf) == (1_100 / 116, 6.0)
    line = next(line for line in summary.costs if line.startswith("quick"))
    assert line == "quick: SampleRF 1.0 (1,100 draws per input for 1,100 of full), TimeRF 2.0 (against full)"


def test_a_baseline_of_other_inputs_is_refused(tmp_path: Path) -> None:
    a, b = (write(tmp_path / name, Fixed(n=100), [1.0] * k, 1.0) for name, k in (("a", 1), ("b", 2)))
    one, two = read_all([a, b])
    with pytest.raises(InputError, match="a cannot be measured against b: they are not of the same inputs"):
        summarise([one], against=two)
    bare = replace(two, records=tuple(Record(r.index, r.label, r.prediction, r.radius) for r in two.records))
    with pytest.raises(InputError, match="records neither draws nor times"):
        summarise([two], against=bare)
