"""False certificates of routed classifiers, on oracles whose truth is known; votes are drawn from known probabilities.

At x the router stands `A` from the plane where it changes its choice, and the chosen classifier `B` from that where it
changes its answer; every other classifier answers otherwise everywhere. So the routed classifier changes its answer
at distance min(A, B), and every certificate beyond that is false. The test fails only on an event of probability below
1e-6 under the claim. SMOOTHCERT_STRESS: certificates per case of procedures that stop by looking.
"""

import math
import os
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from smoothcert.noise import Gaussian
from smoothcert.procedures import Ask, Budgeted, Certificate, Fixed, Procedure, Sequential, Staged, converse
from smoothcert.procedures.routed import Chosen, OfRouter, join, split_level
from smoothcert.stats import Tally

COUNT = int(os.environ.get("SMOOTHCERT_STRESS", "400"))
MANY = 25_000  # of each of the four cases below: 10^5 in all
UNLIKELY = 1e-6
ALPHA, MARGIN = 0.02, 0.4
ROUTER, MEMBER = Gaussian(0.5), Gaussian(0.25)
FAR = math.inf
CASES = {"member at its edge": (FAR, MARGIN), "router at its edge": (MARGIN, FAR), "both": (MARGIN, MARGIN)}

Draw = Callable[[Ask], Tally]


def half_space(margin: float, noise: Gaussian) -> tuple[float, float]:
    p = float(stats.norm.cdf(margin / noise.sigma))
    return p, 1 - p


def routed(procedure: Procedure, route: Certificate, members: Callable[[int, Procedure], Certificate]) -> Certificate:
    """As the engine composes it."""
    if route.abstained:
        return join(procedure, route, None, None)
    return join(procedure, route, members(route.label, split_level(procedure, 0.5)[1]), Chosen("sigma", 0.25))


def false(made: Certificate, truth: float) -> bool:
    """The routed classifier answers 0 nearer than `truth`, and something else there."""
    return not made.abstained and (made.label != 0 or made.radius > truth)


def within_alpha(wrong: int, count: int) -> bool:
    return bool(stats.binom.sf(wrong - 1, count, ALPHA) > UNLIKELY)


def tallies(rng: np.random.Generator, procedure: Fixed, p: tuple[float, ...]) -> list[tuple[Tally, Tally]]:
    votes = [rng.multinomial(n, p, size=MANY).tolist() for n in (procedure.n0, procedure.n)]
    return [(Tally(tuple(a)), Tally(tuple(b))) for a, b in zip(*votes, strict=True)]


def counted(
    procedure: Fixed, router: tuple[float, ...], member: tuple[float, ...], seed: int
) -> Counter[tuple[int, float]]:
    """MANY routed certificates; equal votes have equal certificates, which are made once."""
    rng = np.random.default_rng(seed)
    of_router, of_member = split_level(procedure, 0.5)

    @cache
    def certificate(asked: Procedure, noise: Gaussian, choose: Tally, bound: Tally) -> Certificate:
        answers = iter((choose, bound))
        return converse(asked.certify(noise), lambda _: next(answers))

    @cache
    def whole(route: tuple[Tally, Tally], own: tuple[Tally, Tally]) -> tuple[int, float]:
        first = certificate(OfRouter(of_router), ROUTER, *route)
        other = (Tally((0, own[0].draws)), Tally((0, own[1].draws)))  # whoever else is chosen answers 1
        made = routed(procedure, first, lambda k, asked: certificate(asked, MEMBER, *(own if k == 0 else other)))
        return made.label, made.radius

    pairs = zip(tallies(rng, of_router, router), tallies(rng, of_member, member), strict=True)
    return Counter(whole(route, own) for route, own in pairs)


def wrong(counts: Counter[tuple[int, float]], truth: float) -> int:
    return sum(n for (label, radius), n in counts.items() if radius > 0 and (label != 0 or radius > truth))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_fixed_draws_hold_the_level(case: str) -> None:
    a, b = CASES[case]
    procedure = Fixed(n0=10, n=300, alpha=ALPHA)
    found = counted(procedure, half_space(a, ROUTER), half_space(b, MEMBER), seed=1)
    assert sum(found.values()) == MANY
    bad = wrong(found, min(a, b))
    assert within_alpha(bad, MANY)
    if case != "both":  # there two rare things must happen at once
        assert bad > MANY * ALPHA / 20, "and the level is used"


@pytest.mark.slow
def test_a_router_that_cannot_choose_is_not_certified() -> None:
    """No choice has half of the votes, so any that is certified is false, whatever the classifiers answer."""
    found = counted(Fixed(n0=10, n=300, alpha=ALPHA), (0.45, 0.3, 0.25), (1.0, 0.0), seed=2)
    assert within_alpha(wrong(found, 0.0), MANY)


def test_without_the_routers_radius_the_certificates_would_be_false() -> None:
    """What the tests above would see if the smaller radius were forgotten."""
    of_router, of_member = split_level(Fixed(n0=10, n=300, alpha=ALPHA), 0.5)
    rng = np.random.default_rng(3)
    near = half_space(0.05, ROUTER)
    bad = claimed = 0
    for _ in range(200):
        route = converse(of_router.certify(ROUTER), lambda ask: Tally(tuple(rng.multinomial(ask.n, near).tolist())))
        member = converse(of_member.certify(MEMBER), lambda ask: Tally((ask.n, 0)))
        bad += member.radius > 0.05
        claimed += not route.abstained and min(route.radius, member.radius) > 0.05
    assert not within_alpha(bad, 200)
    assert within_alpha(claimed, 200)


LOOKING: dict[str, Callable[[float], Procedure]] = {
    "sequential": lambda r: Sequential(radius=r, n=400, alpha=ALPHA, beta=ALPHA, n0=100),
    "several radii": lambda r: Sequential(radius=[r / 2, r, 1.2 * r], n=400, alpha=ALPHA, beta=ALPHA, n0=100),
    "staged": lambda r: Staged(radius=r, stages=(50, 200, 500), alpha=ALPHA, beta=ALPHA, n0=100),
    "budgeted": lambda _: Budgeted(most=400, pilot=50, alpha=ALPHA),
}


@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize("case", CASES)
def test_procedures_that_stop_by_looking_hold_the_level(name: str, case: str) -> None:
    a, b = CASES[case]
    procedure = LOOKING[name](MARGIN * (1 + 1e-9))
    of_router, _ = split_level(procedure, 0.5)
    rng = np.random.default_rng(4)

    def drawn(p: tuple[float, ...]) -> Draw:
        return lambda ask: Tally(tuple(rng.multinomial(ask.n, p).tolist()))

    def one() -> Certificate:
        route = converse(OfRouter(of_router).certify(ROUTER), drawn(half_space(a, ROUTER)))
        return routed(
            procedure,
            route,
            lambda k, asked: converse(asked.certify(MEMBER), drawn(half_space(b, MEMBER) if k == 0 else (0.0, 1.0))),
        )

    made = [one() for _ in range(COUNT)]
    assert within_alpha(sum(false(c, min(a, b)) for c in made), COUNT)
    assert all(c.alpha == ALPHA for c in made)


@pytest.mark.parametrize("name", LOOKING)
def test_what_is_true_everywhere_is_certified(name: str) -> None:
    procedure = LOOKING[name](MARGIN)
    of_router, _ = split_level(procedure, 0.5)
    route = converse(OfRouter(of_router).certify(ROUTER), lambda ask: Tally((ask.n, 0)))
    made = routed(procedure, route, lambda _, asked: converse(asked.certify(MEMBER), lambda ask: Tally((ask.n, 0))))
    assert made.label == 0
    assert made.radius >= MARGIN
