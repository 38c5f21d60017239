"""How a router's certificate and a classifier's become one: levels, radii, words."""

import dataclasses
from fractions import Fraction

import pytest

from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian, Laplace
from smoothcert.procedures import ABSTAIN, Ask, Budgeted, Certificate, Fixed, Predict, Procedure, Sequential, converse
from smoothcert.procedures.routed import Chosen, OfRouter, join, routed_fingerprint, split_level, unreachable
from smoothcert.stats import Tally

PROCEDURE = Fixed(n0=10, n=100)
CHOSEN = Chosen("sigma", 0.5)


def certificate(procedure: Procedure, votes: int, sigma: float, *, label: int = 0) -> Certificate:
    def draw(ask: Ask) -> Tally:
        most = ask.n if "choose" in ask.purpose else min(votes, ask.n)
        return Tally((most, ask.n - most) if label == 0 else (ask.n - most, most))

    return converse(procedure.certify(Gaussian(sigma)), draw)


def whole(route_votes: int, member_votes: int) -> Certificate:
    of_router, of_member = split_level(PROCEDURE, 0.5)
    route = certificate(OfRouter(of_router), route_votes, 0.5)
    if route.abstained:
        return join(PROCEDURE, route, None, None)
    return join(PROCEDURE, route, certificate(of_member, member_votes, 0.5, label=1), CHOSEN)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.3, 1 / 3, 0.9, 1e-9])
@pytest.mark.parametrize("alpha", [0.001, 0.02, 0.1, 1 / 3])
def test_levels_never_sum_to_more(share: float, alpha: float) -> None:
    first, second = split_level(Predict(n=1000, alpha=alpha), share)
    assert Fraction(first.alpha) + Fraction(second.alpha) <= Fraction(alpha)
    assert first.alpha + second.alpha == pytest.approx(alpha, rel=1e-12)
    assert first.alpha == pytest.approx(share * alpha)


@pytest.mark.parametrize("share", [0, 1, -0.1, True, "half", float("nan")])
def test_a_share_that_leaves_nothing_to_one_of_them_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="router_share must lie strictly between 0 and 1"):
        split_level(PROCEDURE, share)


def test_the_smaller_radius_counts_and_the_sentence_says_both() -> None:
    routes, answers = (whole(95, 99), whole(99, 95))
    for made in (routes, answers):
        assert made.route is not None
        assert made.alpha == PROCEDURE.alpha
        assert made.route.alpha == PROCEDURE.alpha / 2
        assert made.procedure == PROCEDURE.describe()
        assert made.label == 1
        assert made.draws == 220
        assert made.reason.startswith("answered with sigma 0.5; the choice holds within 0.")
    assert routes.route is not None
    assert routes.radius == routes.route.radius
    assert answers.route is not None
    assert answers.radius < answers.route.radius
    assert routes.radius == answers.radius  # the same votes, the same level, the same noise


def test_an_abstention_of_either_is_one_of_the_whole() -> None:
    undecided, unsure = whole(50, 99), whole(99, 50)
    assert (undecided.label, undecided.radius, undecided.answers) == (ABSTAIN, 0.0, ())
    assert undecided.reason.startswith("the router abstains: no class is clearly ahead")
    assert undecided.draws == 110
    assert undecided.votes == ()
    assert (unsure.label, unsure.radius, unsure.draws) == (ABSTAIN, 0.0, 220)
    assert unsure.reason.startswith("answered with sigma 0.5; the choice holds within 0.")


def test_draws_of_the_router_have_purposes_of_their_own() -> None:
    made = whole(95, 99)
    assert made.route is not None
    assert [purpose for purpose, _ in made.route.answers] == ["router/choose", "router/bound"]
    assert [purpose for purpose, _ in made.answers] == ["choose", "bound"]


@pytest.mark.parametrize(("route", "member"), [(95, 99), (50, 99), (99, 50)])
def test_json_and_back(route: int, member: int) -> None:
    made = whole(route, member)
    assert Certificate.from_json(made.to_json()) == made
    assert "route" not in certificate(PROCEDURE, 99, 0.5).to_json()


def test_a_route_of_a_route_is_refused() -> None:
    made = whole(95, 99)
    twice = dataclasses.replace(made, route=made)
    with pytest.raises(InputError, match="route must be the certificate of one router"):
        Certificate.from_json(twice.to_json())
    unasked = made.to_json() | {"answers": []}
    with pytest.raises(InputError, match="answers of a certificate must be at least one"):
        Certificate.from_json(unasked)


def test_given_radii_are_certified_where_both_tests_certify_them() -> None:
    procedure = Sequential(radius=[0.1, 0.4], n=200, alpha=0.02)
    of_router, of_member = split_level(procedure, 0.5)
    route = certificate(OfRouter(of_router), 10**6, 0.5)
    noise = Gaussian(0.5)

    def near(ask: Ask) -> Tally:  # two thirds of the votes: enough for 0.1, too few for 0.4
        return Tally((ask.n // 3, ask.n - ask.n // 3))

    member = converse(of_member.certify(noise), near)
    assert [d.certified for d in route.decisions] == [True, True]
    assert [d.certified for d in member.decisions] == [True, False]
    made = join(procedure, route, member, CHOSEN)
    assert [d.certified for d in made.decisions] == [True, False]
    assert made.radius == 0.1
    other = join(procedure, dataclasses.replace(member, label=0), dataclasses.replace(route, label=1), CHOSEN)
    assert [d.certified for d in other.decisions] == [True, False]
    assert other.radius == 0.1


def test_other_norms_are_not_joined() -> None:
    of_router, of_member = split_level(PROCEDURE, 0.5)
    route = converse(of_router.certify(Laplace(0.5)), lambda ask: Tally((ask.n, 0)))
    with pytest.raises(InputError, match="the router's radius is in l1 and the classifier's in l2"):
        join(PROCEDURE, route, certificate(of_member, 99, 0.5), CHOSEN)


def test_what_a_noise_can_never_show_is_said() -> None:
    assert unreachable(Budgeted(), Gaussian(0.25)) == ""
    assert unreachable(Sequential(radius=0.5, n=1000), Gaussian(0.25)) == ""
    assert "radius 2 can never be shown" in unreachable(Sequential(radius=2, n=1000), Gaussian(0.25))


def test_a_fingerprint_names_every_part() -> None:
    noise, strengths = Gaussian(0.25).describe(), [0.5, 0.25, 0.5]
    one = routed_fingerprint(["r", "a", "b"], noise, strengths)
    others = [
        routed_fingerprint(["r", "b", "a"], noise, strengths),
        routed_fingerprint(["x", "a", "b"], noise, strengths),
        routed_fingerprint(["r", "a", "b"], noise, [0.4, 0.25, 0.5]),
        routed_fingerprint(["r", "a", "b"], Gaussian(0.25, grid=1 / 255).describe(), strengths),
    ]
    assert len({one, *others}) == 5
    assert routed_fingerprint(["r", None, "b"], noise, strengths) is None
