"""The sequential procedure: streams of votes that try to cheat it, and what it costs."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.procedures import ABSTAIN, Ask, Certificate, Procedure, Sequential, Staged, converse
from smoothcert.stats import Tally
from smoothcert.stats.boundary_store import stored_boundaries

NOISE = Gaussian(0.5)
PROCEDURE = Sequential(radius=0.5, n=10_000)
TABLE = stored_boundaries((NOISE.required_p(0.5),), 10_000, 0.001, 0.001)[0]


def run(failures: Callable[[int, int], int], procedure: Sequential = PROCEDURE) -> Certificate:
    """`failures(total draws, draws of this look)` says how many of this look fail."""
    total = [0]

    def draw(ask: Ask) -> Tally:
        if ask.purpose == "choose":
            return Tally((ask.n, 0))
        total[0] += ask.n
        wrong = min(ask.n, max(0, failures(total[0], ask.n)))
        return Tally((ask.n - wrong, wrong))

    return converse(procedure.certify(NOISE), draw)


def test_unanimous_votes_certify_at_the_first_look_that_may() -> None:
    certificate = run(lambda total, n: 0)
    first = next(j for j, a in enumerate(TABLE.certify) if a >= 0)
    assert (certificate.label, certificate.radius) == (0, 0.5)
    assert certificate.draws == 16 + TABLE.looks[first]
    assert certificate.decisions[0].step == first + 1
    assert certificate.p_lower == NOISE.required_p(0.5), "the test shows p > p0, not a bound from the stopped votes"


def test_hopeless_votes_give_up_at_once() -> None:
    certificate = run(lambda total, n: n // 2)
    assert (certificate.label, certificate.radius, certificate.p_lower) == (ABSTAIN, 0.0, 0.0)
    assert certificate.draws <= 16 + TABLE.looks[1]
    assert "radius 0.5 is not shown" in certificate.reason


def test_a_class_that_is_too_rare_is_given_up_by_the_choice() -> None:
    certificate = converse(PROCEDURE.certify(NOISE), lambda ask: Tally((ask.n // 4, ask.n // 4, ask.n // 2)))
    assert (certificate.label, certificate.radius, certificate.draws) == (ABSTAIN, 0.0, 32)
    assert [purpose for purpose, _ in certificate.answers] == ["choose", "choose"]
    assert [(d.radius, d.certified) for d in certificate.decisions] == [(0.5, False)]
    assert certificate.reason == "radius 0.5 is not shown by the choice of the class: 16 of 32 votes for 2"


def test_an_adversary_who_stays_one_failure_above_the_boundary_never_gets_a_certificate() -> None:
    """Peeking at every look and failing just enough: it must end without a certificate."""
    seen = [0]

    def wrong(total: int, n: int) -> int:
        wanted = TABLE.certify[TABLE.looks.index(total)] + 1
        new = max(0, wanted - seen[0])
        seen[0] += new
        return new

    certificate = run(wrong)
    assert certificate.abstained


def test_exactly_on_a_boundary_is_certified_and_above_is_not() -> None:
    last = TABLE.looks[-1]
    for extra, certified in ((0, True), (1, False)):
        seen = [0]

        def wrong(total: int, n: int, extra: int = extra, seen: list[int] = seen) -> int:
            j = TABLE.looks.index(total)
            # Undecided on the way, then exactly `certify[-1] + extra` at the end.
            target = TABLE.certify[-1] + extra if total == last else TABLE.certify[j] + 1
            new = max(0, target - seen[0])
            seen[0] += new
            return new

        certificate = run(wrong)
        assert certificate.abstained is not certified


def test_the_draws_of_a_look_are_never_asked_twice() -> None:
    """Looks ask for the difference only, under one purpose: the engine goes on in the stream and repeats no block."""
    asked: list[Ask] = []
    rng = np.random.default_rng(0)

    def draw(ask: Ask) -> Tally:
        asked.append(ask)
        if ask.purpose == "choose":
            return Tally((ask.n, 0))
        wrong = int(rng.binomial(ask.n, 1 - NOISE.required_p(0.5) - 0.005))
        return Tally((ask.n - wrong, wrong))

    certificate = converse(PROCEDURE.certify(NOISE), draw)
    assert [ask.purpose for ask in asked] == ["choose"] + ["bound"] * (len(asked) - 1)
    assert list(np.cumsum([ask.n for ask in asked[1:]])) == list(TABLE.looks[: len(asked) - 1])
    assert certificate.tallies["bound"].draws == TABLE.looks[len(asked) - 2]
    assert asked[1].n == 16, "no floor: the first look is early"


@pytest.mark.parametrize("extra", [16, -1, -16])
def test_a_block_that_is_doubled_or_lost_is_refused(extra: int) -> None:
    def draw(ask: Ask) -> Tally:
        return Tally((ask.n + (extra if ask.purpose == "bound" else 0), 0))

    with pytest.raises(InputError, match=f"the wish was for 16 draws .bound., the answer has {16 + extra}"):
        converse(PROCEDURE.certify(NOISE), draw)


def test_several_radii_are_each_decided() -> None:
    procedure = Sequential(radius=[1.0, 0.25, 0.5, 9.0], n=10_000)
    assert procedure.radii == (0.25, 0.5, 1.0, 9.0)
    certificate = run(lambda total, n: n // 10, procedure)  # p_A = .9: 0.64 at sigma .5
    assert [(d.radius, d.certified) for d in certificate.decisions] == [
        (0.25, True), (0.5, True), (1.0, False), (9.0, False)
    ]  # fmt: skip
    assert (certificate.label, certificate.radius) == (0, 0.5)
    assert Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize("radius", [0.0, -1.0, [], [0.5, float("inf")], float("nan"), True, "0.5"])
def test_refusals(radius: object) -> None:
    with pytest.raises(InputError, match="radius must be one positive number or several"):
        Sequential(radius=radius)  # type: ignore[arg-type]


def test_radii_out_of_reach_are_refused() -> None:
    with pytest.raises(InputError, match="can never be shown"):
        run(lambda total, n: 0, Sequential(radius=3.0, n=10_000))


def test_numpy_numbers_and_tiny_alphas() -> None:
    procedure = Sequential(radius=np.float32(0.5), alpha=np.float64(0.001))  # type: ignore[arg-type]
    assert procedure == Sequential(radius=0.5, alpha=0.001)
    assert type(procedure.radius) is float
    with pytest.raises(InputError, match="alpha must be at least 1e-20"):
        Sequential(radius=0.5, alpha=1e-30)


@pytest.mark.parametrize("procedure", [Sequential(radius=0.9, n=1_000), Staged(radius=0.9, stages=(100, 1_000))])
def test_an_input_too_far_from_the_grid_is_given_up_and_does_not_stop_the_others(procedure: Procedure) -> None:
    on_grid = Gaussian(0.5, grid=1 / 255)
    beside = dataclasses.replace(on_grid, offset=0.6)  # .9 + .6 is more than 1000 unanimous draws show

    def unanimous(ask: Ask) -> Tally:
        return Tally((ask.n, 0))

    given_up = converse(procedure.certify(beside), unanimous)
    assert (given_up.abstained, given_up.draws) == (True, 16)
    assert "is not shown by the choice of the class: 16 of 16 votes for 0" in given_up.reason
    assert converse(procedure.certify(on_grid), unanimous).radius == 0.9
    with pytest.raises(InputError, match="can never be shown"):
        converse(procedure.certify(Gaussian(0.1)), unanimous)
