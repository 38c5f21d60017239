"""Certificates computed again from stored votes: the same to the last bit, or weaker, or refused."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from simulated_runs import simulated_config

from smoothcert.analysis import Results, Settings, read, reanalyse
from smoothcert.analysis.reanalysis import subset_votes
from smoothcert.core.errors import InputError
from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import Ask, Fixed, FromDraws, Procedure, Scope, Sequential, Staged, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import EmpiricalBernstein, Hoeffding, Tally
from smoothcert.stats.tally import SCORE_UNIT

NOISES: list[Noise] = [Gaussian(0.3), Gaussian(0.5, "linf", 784), Uniform(0.7), Laplace(0.3), Ablation(0.8, 2)]
PROCEDURES = [
    Fixed(n=500), Fixed(n=500, runner_up=True), Fixed(n=500, bound=Hoeffding()),
    Fixed(n=500, bound=EmpiricalBernstein(4.0), runner_up=True, alpha=0.01),
]  # fmt: skip
UNIT = round(1 / SCORE_UNIT)


def tally(ask: Ask, share: float) -> Tally:
    first = round(ask.n * share)
    votes = (first, (ask.n - first) // 2, ask.n - first - (ask.n - first) // 2)
    if ask.beta is None:
        return Tally(votes)
    return Tally(votes, tuple(v * UNIT for v in votes), tuple(v * UNIT * UNIT for v in votes))


def written(path: Path, noise: Noise, procedure: Procedure, shares: list[float], **changes: object) -> Path:
    about = {"noise": noise.describe(), "procedure": procedure.describe(), "classifier": {}, "num_classes": 3}
    if changes.get("scope") is Scope.MEMORY:
        about["memory"] = "m"
    run = Run.start(path, simulated_config(range(len(shares)), **about))
    with run.writing() as writer:
        for i, share in enumerate(shares):
            made = converse(procedure.certify(noise), lambda ask, share=share: tally(ask, share))
            certificate = dataclasses.replace(made, noise=noise.describe(), **changes)  # type: ignore[arg-type]
            writer.append(Record.of(i, 0, certificate, 0.5))
    return path


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda p: f"{p.bound.name}-{p.runner_up}")
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_same_settings_reproduce_every_bit(tmp_path: Path, noise: Noise, procedure: Fixed) -> None:
    run = read(written(tmp_path / "run", noise, procedure, [1.0, 0.998, 0.9, 0.7, 0.52, 0.4, 0.0]))
    for again in (reanalyse(run), reanalyse(run, alpha=procedure.alpha), reanalyse(run, n=procedure.n)):
        assert again.records == run.records, "label, radius, p_lower, p_upper, votes, reason"
        assert again.settings.procedure == run.settings.procedure


@given(st.integers(0, 200), st.floats(1e-6, 0.2), st.floats(1e-6, 0.2), st.booleans())
def test_a_smaller_alpha_never_gives_a_larger_radius(votes: int, one: float, two: float, runner_up: bool) -> None:
    result = in_memory(Fixed(n=200, n0=10, runner_up=runner_up, alpha=0.05), Gaussian(0.5), [votes / 200])
    strict, lax = (reanalyse(result, alpha=alpha).records[0] for alpha in sorted([one, two]))
    assert strict.radius <= lax.radius
    assert strict.certificate is not None
    assert strict.certificate.alpha == min(one, two)


def in_memory(procedure: Fixed, noise: Noise, shares: list[float]) -> Results:
    records = []
    for i, share in enumerate(shares):
        made = converse(procedure.certify(noise), lambda ask, share=share: tally(ask, share))
        records.append(Record.of(i, 0, dataclasses.replace(made, noise=noise.describe()), 0.5))
    return Results("run", tuple(records), settings=Settings(procedure=procedure.describe()))


@given(st.lists(st.integers(0, 400), min_size=1, max_size=6).filter(any), st.data())
def test_subset_votes_never_exceed_the_recorded(votes: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, sum(votes)))
    subset = subset_votes(Tally(tuple(votes)), n, (0, 7))
    assert subset.draws == n
    assert all(0 <= s <= v for s, v in zip(subset.votes, votes, strict=True))
    assert subset == subset_votes(Tally(tuple(votes)), n, (0, 7)), "seeded"


def test_more_votes_than_can_be_subsetted_are_refused() -> None:
    many = Tally((10**9, 5))
    assert subset_votes(many, 10**9 + 5, (0,)) == many
    with pytest.raises(InputError, match="fewer than 1000000000 draws"):
        subset_votes(many, 10, (0,))


def test_subset_votes_follow_the_hypergeometric_law() -> None:
    drawn = [subset_votes(Tally((30, 10)), 12, (0, i)).votes[0] for i in range(2000)]
    law = stats.hypergeom(40, 30, 12)
    for k in range(6, 13):
        # a binomial count: beyond these quantiles with probability 1e-6 each
        low, high = stats.binom.ppf([1e-6, 1 - 1e-6], 2000, law.pmf(k))
        assert low <= drawn.count(k) <= high


def test_bounds_of_subsets_are_false_as_seldom_as_allowed() -> None:
    # p_A = 0.8 is above p_lower with probability >= 0.95; beyond the quantile with probability 1e-6
    rng, alpha, p = np.random.default_rng(5), 0.05, 0.8
    procedure = Fixed(n=200, n0=10, alpha=alpha)
    false = 0
    for start in range(0, 2000, 100):
        result = in_memory(procedure, Gaussian(0.5), (rng.binomial(200, p, 100) / 200).tolist())
        for record in reanalyse(result, n=60, seed=start).records:
            assert record.certificate is not None
            false += record.certificate.p_lower > p
    assert 0 < false <= stats.binom.ppf(1 - 1e-6, 2000, alpha)


def test_fewer_draws_are_a_run_of_fewer_draws() -> None:
    result = in_memory(Fixed(n=1000), Gaussian(0.5), [1.0, 0.9])
    fewer = reanalyse(result, n=100, alpha=0.01)
    unanimous = fewer.records[0]
    assert unanimous.certificate is not None
    assert unanimous.certificate.votes == (100, 0, 0)
    assert unanimous.certificate.p_lower == pytest.approx(0.01 ** (1 / 100), rel=1e-12)
    assert (unanimous.draws, unanimous.seconds) == (200, None), "nobody measured the time"
    assert (fewer.settings.procedure or {})["n"] == 100
    assert fewer.settings.alpha == 0.01
    assert fewer.settings.fixed_draws == 200
    assert fewer.note == "computed again from the stored votes at alpha 0.01 with n = 100"
    assert reanalyse(result, n=100) == reanalyse(result, n=100) != reanalyse(result, n=100, seed=1)
    assert reanalyse(result, alpha=0.01).records[0].seconds == 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 501}, "n must be at most the 500 draws that run recorded, got 501"),
        ({"n": 9}, "n must be at least 10, got 9"),
        ({"alpha": 0.0}, "alpha must lie strictly between 0 and 1, got 0.0"),
        ({"alpha": 1.5}, "alpha must lie strictly between 0 and 1"),
        ({"alpha": 1e-300}, "n must be at least 99"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(change: dict, words: str) -> None:
    result = in_memory(Fixed(n=500), Gaussian(0.5), [0.9])
    with pytest.raises(InputError, match=words):
        reanalyse(result, **change)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: written(path, Gaussian(0.5), Sequential(radius=0.1, n=1000), [1.0]), "only runs of 'fixed'"),
        (
            lambda path: written(path, Gaussian(0.5), Staged(radius=0.1, stages=(50, 200)), [1.0]),
            "only runs of 'fixed'",
        ),
        (
            lambda path: written(
                path, Gaussian(0.5), Fixed(n=100), [1.0], scope=Scope.MEMORY, from_draws=FromDraws(0, 9.0, "", region=1)
            ),
            "depend on a memory",
        ),
        (lambda path: written(path, Gaussian(0.5), Fixed(n=100), [1.0], radius=9.0), "do not give its recorded radius"),
        (
            lambda path: written(path, Gaussian(0.5), Fixed(n=100), [1.0], answers=(("bound", Tally((1, 1))),)),
            "are not those of its procedure",
        ),
    ],
    ids=["sequential", "staged", "memory", "other radius", "other votes"],
)
def test_runs_that_hold_too_little_are_refused(tmp_path: Path, make: Callable[[Path], Path], words: str) -> None:
    run = read(make(tmp_path / "run"))
    with pytest.raises(InputError, match=words):
        reanalyse(run, alpha=0.01)


def test_soft_scores_have_no_subsets_and_logs_no_votes() -> None:
    soft = in_memory(Fixed(n=500, bound=Hoeffding()), Gaussian(0.5), [0.9])
    assert reanalyse(soft, alpha=0.01).records[0].radius > soft.records[0].radius
    with pytest.raises(InputError, match="no subset can be drawn"):
        reanalyse(soft, n=100)
    with pytest.raises(InputError, match="log keeps no votes"):
        reanalyse(Results("log", (Record(0, 1, 1, 0.5),)), alpha=0.01)
    with pytest.raises(InputError, match="describes no procedure: alpha is missing"):
        reanalyse(dataclasses.replace(soft, settings=Settings(procedure={"name": "fixed", "m": 3})), alpha=0.01)
