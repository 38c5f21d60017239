"""CERTIFY as a conversation, with simulated votes: no model needed."""

import dataclasses

import pytest
from scipy import stats

from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.procedures import ABSTAIN, Ask, Certificate, Fixed, converse
from smoothcert.stats import EmpiricalBernstein, Hoeffding, Tally, lower_bound, upper_bound

NOISE = Gaussian(sigma=0.5)


def answer(procedure: Fixed, choose: tuple[int, ...], bound: tuple[int, ...]) -> Certificate:
    tallies = {"choose": Tally(choose), "bound": Tally(bound)}
    return converse(procedure.certify(NOISE), lambda ask: tallies[ask.purpose])


def test_it_reads_like_the_paper() -> None:
    certificate = answer(Fixed(n0=10, n=1000), (1, 9, 0), (10, 985, 5))
    p_lower = lower_bound(985, 1000, 0.001)
    assert certificate.label == 1
    assert certificate.p_lower == p_lower
    assert certificate.radius == pytest.approx(0.5 * stats.norm.ppf(p_lower), rel=1e-12)
    assert (certificate.draws, certificate.votes, certificate.norm) == (1010, (10, 985, 5), "l2")
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_it_asks_for_separate_draws() -> None:
    """Trap 1: the class must not be chosen on the draws that bound it."""
    asked: list[Ask] = []
    converse(Fixed(n0=7, n=100).certify(NOISE), lambda ask: (asked.append(ask), Tally((ask.n, 0)))[1])
    assert [(a.purpose, a.n) for a in asked] == [("choose", 7), ("bound", 100)]


def test_the_class_of_the_first_draws_stays() -> None:
    """A class that only the bounding draws favour is not certified in place of the chosen one."""
    certificate = answer(Fixed(n0=10, n=1000), (6, 4), (10, 990))
    assert (certificate.label, certificate.radius) == (ABSTAIN, 0.0)
    assert "class 0 has 10 of 1000 votes" in certificate.reason


def test_abstention_has_a_reason() -> None:
    certificate = answer(Fixed(n0=10, n=100), (5, 5), (52, 48))
    assert certificate.abstained
    assert "not above 1/2" in certificate.reason


def test_runner_up_certifies_below_one_half() -> None:
    certificate = answer(Fixed(n0=10, n=10_000, runner_up=True), (5, 3, 2), (4500, 2800, 2700))
    low, high = lower_bound(4500, 10_000, 0.0009), upper_bound(2800, 10_000, 0.0001)
    expected = 0.25 * (stats.norm.ppf(low) - stats.norm.ppf(high))
    assert (certificate.label, certificate.p_lower, certificate.p_upper) == (0, low, high)
    assert certificate.radius == pytest.approx(expected, rel=1e-12)
    assert answer(Fixed(n0=10, n=10_000), (5, 3, 2), (4500, 2800, 2700)).abstained


def test_runner_up_bound_is_never_worse_than_the_complement() -> None:
    certificate = answer(Fixed(n0=10, n=10_000, runner_up=True), (10, 0), (9000, 1000))
    assert certificate.p_upper is not None
    assert certificate.p_upper <= 1 - certificate.p_lower + 1e-15


@pytest.mark.parametrize(
    ("procedure", "smallest"),
    [({}, 10), ({"alpha": 0.05}, 5), ({"runner_up": True}, 11), ({"bound": Hoeffding()}, 14),
     ({"bound": EmpiricalBernstein()}, 37)],
)  # fmt: skip
def test_too_few_draws_are_refused_and_the_smallest_n_works(procedure: dict[str, object], smallest: int) -> None:
    """Trap 8: n = 9 at alpha = 0.001 could only ever abstain."""
    with pytest.raises(InputError, match=f"n must be at least {smallest}, got {smallest - 1}"):
        Fixed(n=smallest - 1, **procedure)  # type: ignore[arg-type]
    best = Fixed(n=smallest, n0=1, **procedure)  # type: ignore[arg-type]
    certificate = converse(best.certify(NOISE), lambda ask: best.bound.unanimous(ask.n))
    assert certificate.radius > 0


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_alpha_outside_the_open_interval_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha must lie strictly between 0 and 1"):
        Fixed(alpha=alpha)


def test_draws_must_be_whole_numbers() -> None:
    with pytest.raises(InputError, match="n0 must be at least 1"):
        Fixed(n0=0)
    with pytest.raises(InputError, match="whole number"):
        Fixed(n=1e5)  # type: ignore[arg-type]


def test_printed_radii_are_rounded_down() -> None:
    """Trap 6."""
    certificate = dataclasses.replace(answer(Fixed(n0=10, n=1000), (10, 0), (985, 15)), radius=0.49999)
    assert "class 0 below l2 radius 0.4999:" in str(certificate)
    assert "fixed classifier, wrong with probability at most 0.001" in str(certificate)
    assert str(answer(Fixed(n0=10, n=100), (5, 5), (52, 48))).startswith("abstains: no class is clearly ahead")


@pytest.mark.parametrize(
    "change",
    [{"label": 1.5}, {"label": True}, {"label": -2}, {"radius": -0.1}, {"radius": float("nan")}, {"radius": "0.5"},
     {"label": -1}, {"p_lower": 1.5}, {"alpha": None}, {"p_upper": "x"}, {"scope": "everything"}, {"seed": "0"}],
)  # fmt: skip
def test_what_no_certificate_can_say_is_refused(change: dict[str, object]) -> None:
    data = answer(Fixed(n0=10, n=1000), (10, 0), (985, 15)).to_json() | change
    with pytest.raises(ValueError, match=r"must|not a valid"):
        Certificate.from_json(data)
