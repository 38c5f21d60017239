"""Routed classifiers whose truth is known: planes that decide who answers, and what."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.procedures import Procedure

SIGMA_R = 0.5


def plane(axis: int, scale: float = 8.0) -> nn.Linear:
    """Class 1 where x[axis] > 0; the smoothed classifier has the same plane, and p_A = Phi(|x[axis]| / sigma)."""
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.zero_()
        model.weight[1, axis] = scale
    return model


def smoothed(model: Any, noise: Noise, classes: int = 2, **options: Any) -> sc.Smoothed:
    return sc.Smoothed(model, classes, noise, **{"seed": 3, "workers": 1} | options)


def planes(**options: Any) -> sc.Routed:
    """The router looks at the first number; sigma 0.25 then looks at the second one, sigma 1 at the third."""
    members = {s: smoothed(plane(1 + i), sc.Gaussian(s), **options) for i, s in enumerate((0.25, 1.0))}
    return sc.Routed(smoothed(plane(0), sc.Gaussian(SIGMA_R), **options), members)


def inputs(count: int = 12) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(1))


def truth(x: Tensor) -> list[tuple[int, int, float]]:
    """Who answers, what, and within which distance at least: that of the nearer of the two planes."""
    found = []
    for row in x.tolist():
        route = int(row[0] > 0)
        found.append((route, int(row[1 + route] > 0), min(abs(row[0]), abs(row[1 + route]))))
    return found


PROCEDURES: dict[str, Procedure] = {
    "fixed": sc.Fixed(n0=50, n=2_000),
    "budgeted": sc.Budgeted(most=2_000, pilot=50),
    "sequential": sc.Sequential(radius=[0.1, 0.3], n=2_000),
    "staged": sc.Staged(radius=0.1, stages=(100, 2_000)),
}


@pytest.mark.parametrize("name", PROCEDURES)
def test_certificates_agree_with_the_truth(name: str) -> None:
    """At alpha 0.001 none of a dozen is false, with these seeds; and enough are there."""
    x = inputs()
    made = planes().certify(x, PROCEDURES[name])
    for certificate, (route, label, radius) in zip(made, truth(x), strict=True):
        assert certificate.scope is sc.Scope.FIXED
        assert certificate.route is not None
        assert certificate.alpha == 0.001
        if not certificate.route.abstained:
            assert certificate.route.label == route
            assert certificate.noise["sigma"] == (0.25, 1.0)[route]
        if not certificate.abstained:
            assert certificate.label == label
            assert 0 < certificate.radius <= radius
            assert certificate.radius <= certificate.route.radius
    assert sum(not certificate.abstained for certificate in made) >= 6
    assert len({certificate.noise["sigma"] for certificate in made if not certificate.abstained}) == 2


def test_the_radius_is_what_both_parts_say_by_themselves() -> None:
    x, procedure = inputs(), sc.Fixed(n0=50, n=2_000)
    whole = planes()
    made = whole.certify(x, procedure)
    half = sc.Fixed(n0=50, n=2_000, alpha=0.0005)
    alone = {s: member.certify(x, half) for s, member in whole.members.items()}
    for row, certificate in enumerate(made):
        assert certificate.route is not None
        if certificate.route.abstained:
            assert certificate.answers == ()
            continue
        own = alone[certificate.noise["sigma"]][row]
        assert certificate.answers == own.answers
        assert certificate.radius == min(certificate.route.radius, own.radius)


def test_the_router_draws_by_itself() -> None:
    """The same model as router and member: without draws of its own, their votes would be the same."""
    noise = sc.Gaussian(0.5)
    same = sc.Routed(
        smoothed(plane(0), noise), {0.5: smoothed(plane(0), noise), 1.0: smoothed(plane(0), sc.Gaussian(1.0))}
    )
    x = torch.tensor([[-0.4, 0.0, 0.0]])
    (made,) = same.certify(x, sc.Fixed(n0=50, n=5_000))
    assert made.route is not None
    assert made.route.label == 0
    assert made.noise["sigma"] == 0.5
    assert made.route.votes != made.votes
    expected = 5_000 * stats.norm.cdf(0.8)
    for votes in (made.route.votes, made.votes):
        assert abs(votes[0] - expected) < 6 * np.sqrt(5_000 / 4)


def test_nothing_depends_on_company_workers_or_order() -> None:
    x, procedure = inputs(), sc.Sequential(radius=0.2, n=1_000)
    one = planes().certify(x, procedure)
    rows = torch.tensor([7, 2, 11])
    assert planes().certify(x[rows], procedure) == [one[row] for row in rows.tolist()]
    pool = sc.Threads(2)
    assert planes(workers=None, pool=pool).certify(x, procedure) == list(one)
    again: sc.Routed = pickle.loads(pickle.dumps(planes()))
    assert again.certify(x[:2], procedure) == list(one[:2])


def test_many_inputs_are_routed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x, procedure = inputs(), sc.Fixed(n0=10, n=100)
    one = planes().certify(x, procedure)
    monkeypatch.setattr("smoothcert.engine.routed.MOST_AT_ONCE", 5)
    monkeypatch.setattr("smoothcert.engine.routed.LEAST_AT_ONCE", 5)
    heard: list[int] = []
    found = dict(planes().certifying(x, procedure, on_draws=heard.append))
    assert [found[row] for row in range(len(x))] == list(one)
    assert sum(heard) == sum(certificate.draws for certificate in one)


def test_predictions_are_of_the_member_that_is_chosen() -> None:
    x = inputs()
    for prediction, (route, label, _) in zip(planes().predict(x, sc.Predict(n=500)), truth(x), strict=True):
        assert prediction.route is not None
        assert prediction.alpha == 0.001
        if not prediction.route.abstained:
            assert prediction.route.label == route
            assert prediction.draws == 1_000
        if not prediction.abstained:
            assert prediction.label == label
            assert prediction.p_value <= 0.001
            assert prediction.reason.startswith("answered with sigma ")
    (close,) = planes().predict(torch.zeros(1, 3), sc.Predict(n=500))
    assert close.abstained
    assert close.reason.startswith("the router abstains: too close to call")
    assert (close.votes, close.draws) == ((), 500)
    assert close.to_json()["route"]["label"] == sc.ABSTAIN


def test_a_member_that_cannot_show_the_radius_abstains_without_a_draw() -> None:
    x = torch.tensor([[-5.0, 5.0, 5.0], [5.0, 5.0, 5.0]])  # sigma 0.25, and sigma 1
    small, wide = planes().certify(x, sc.Sequential(radius=1.0, n=1_000))
    assert small.abstained
    assert small.answers == ()
    assert small.reason.startswith("answered with sigma 0.25: radius 1 can never be shown")
    assert (wide.label, wide.radius) == (1, 1.0)
    with pytest.raises(InputError, match="the router cannot do it: radius 9 can never be shown"):
        planes().certify(x, sc.Sequential(radius=9.0, n=1_000))


def test_an_ensemble_and_a_grid() -> None:
    grid = 1 / 255
    voting = sc.SoftVoting([plane(1), plane(1, scale=4.0)])
    members = {
        0.25: smoothed(voting, sc.Gaussian(0.25, grid=grid)),
        1.0: smoothed(plane(2), sc.Gaussian(1.0, grid=grid)),
    }
    whole = sc.Routed(smoothed(plane(0), sc.Gaussian(0.5, grid=grid)), members)
    x = torch.tensor([[-1.0, 0.5, 0.0], [-0.7003, 0.3001, 0.0]])
    for row, made in enumerate(whole.certify(x, sc.Fixed(n0=50, n=1_000))):
        assert (made.label, made.noise["grid"]) == (1, grid)
        assert 0 < made.radius < float(x[row, 1])
        assert "perturbed inputs are rounded to the nearest multiple of 1/255" in str(made)


def test_what_the_printed_certificate_says() -> None:
    (made,) = planes().certify(torch.tensor([[-1.0, 0.5, 0.0]]), sc.Fixed(n0=50, n=1_000))
    assert made.route is not None
    said = str(made)
    assert said.startswith("class 1 below l2 radius 0.")
    assert "answered with sigma 0.25; the choice holds within 0." in said
    assert "answered with sigma 0.25; the choice holds within 0." in made._repr_html_()
    assert "wrong with probability at most 0.001" in said


def test_a_description_names_router_and_members() -> None:
    whole = planes()
    about = whole.describe()
    assert about["router"] == whole.router.describe()
    assert list(about["members"]) == ["0.25", "1.0"]
    assert about["fingerprint"] == planes().describe()["fingerprint"]
    other = sc.Routed(smoothed(plane(0, scale=7.0), sc.Gaussian(SIGMA_R)), whole.members)
    assert about["fingerprint"] != other.describe()["fingerprint"]
    assert repr(whole).startswith("Routed(sigma 0.25, 1 by Smoothed(Linear")


@pytest.mark.parametrize("given", [{}, {"num_classes": 2}], ids=["asked", "told"])
def test_models_are_smoothed_alike(given: dict[str, Any]) -> None:
    """Models as they are become what they would be if each had been smoothed by hand; its truth is known above."""
    x, procedure = inputs(), sc.Fixed(n0=50, n=2_000)
    bare = sc.Routed(plane(0), {1.0: plane(2), 0.25: plane(1)}, noise=sc.Gaussian(SIGMA_R), seed=3, **given)
    made = bare.certify(x, procedure)
    assert made == list(planes().certify(x, procedure))
    assert bare.describe()["fingerprint"] == planes().describe()["fingerprint"]
    assert (bare.num_classes, bare.seed, bare.strengths) == (2, 3, (0.25, 1.0))
    again: sc.Routed = pickle.loads(pickle.dumps(bare))
    assert again.predict(x) == planes().predict(x)


def test_functions_and_ensembles_are_models_too() -> None:
    """The noise of a router about which nothing is said is the widest, and a grid is that of its noise."""
    voting = sc.SoftVoting([plane(1), plane(1, scale=4.0)])
    whole = sc.Routed(plane(0), {0.25: voting, 0.5: lambda x: x[:, 1:] * 8})
    with pytest.raises(InputError, match="give num_classes"):
        _ = whole.num_classes
    x = torch.tensor([[-2.0, 1.0, 0.0], [2.0, 0.0, 2.0]])
    first, second = whole.certify(x, sc.Fixed(n0=50, n=1_000))
    assert (first.label, first.noise["sigma"], second.label, second.noise["sigma"]) == (1, 0.25, 1, 0.5)
    assert 0 < first.radius <= 1
    assert 0 < second.radius <= 2 / np.sqrt(2)  # where the second number meets the first
    assert whole.router.noise == sc.Gaussian(0.5)
    assert whole.num_classes == 2
    on_grid = sc.Routed(plane(0), {0.25: plane(1), 0.5: plane(2)}, noise=sc.Gaussian(0.5, grid=1 / 255), num_classes=2)
    assert [member.noise for member in on_grid.members.values()] == [sc.Gaussian(s, grid=1 / 255) for s in (0.25, 0.5)]


def test_models_that_cannot_be_smoothed_are_refused() -> None:
    parts = planes()
    with pytest.raises(InputError, match="seed is that of each Smoothed already; leave it out"):
        sc.Routed(parts.router, parts.members, seed=0)
    with pytest.raises(InputError, match="got none"):
        sc.Routed(plane(0), {})
    with pytest.raises(InputError, match="tells 2 strengths apart, got 1 members"):
        sc.Routed(plane(0), {0.25: plane(1)}, num_classes=2)
    with pytest.raises(InputError, match="2 and 5 classes"):
        sc.Routed(plane(0), {0.25: plane(1), 0.5: nn.Linear(3, 5)}).certify(inputs())
    with pytest.raises(InputError, match=r"scores of shape \(batch, num_classes\)"):
        sc.Routed(plane(0), {s: plane(1) for s in (0.25, 0.5, 1.0)}).certify(inputs(), sc.Fixed(n=100))


GOOD = sc.Gaussian(0.25)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a model": (
        lambda: {0.25: plane(1), 1.0: smoothed(plane(1), sc.Gaussian(1.0))},
        "the member 0.25 of Routed is a Linear and others are Smoothed; give all as models",
    ),
    "one member": (lambda: {0.25: smoothed(plane(1), GOOD)}, "tells 2 strengths apart, got 1 members"),
    "three": (
        lambda: {s: smoothed(plane(1), sc.Gaussian(s)) for s in (0.25, 0.5, 1.0)},
        "tells 2 strengths apart, got 3 members",
    ),
    "strength": (lambda: {s: smoothed(plane(1), GOOD) for s in (0.25, 1.0)}, "give it that strength"),
    "seed": (
        lambda: {s: smoothed(plane(1), sc.Gaussian(s), seed=4) for s in (0.25, 1.0)},
        "has seed 4 and the router 3",
    ),
    "classes": (
        lambda: {0.25: smoothed(plane(1), GOOD), 1.0: smoothed(nn.Linear(3, 5), sc.Gaussian(1.0), 5)},
        "2 and 5 classes",
    ),
    "noise": (
        lambda: {s: smoothed(plane(1), sc.Laplace(s)) for s in (0.25, 1.0)},
        "take one kind of noise, norm and grid for all",
    ),
    "search": (
        lambda: {s: smoothed(plane(1), sc.Gaussian(s), search=sc.Bracket()) for s in (0.25, 1.0)},
        "must have one noise and one set of weights for all inputs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_one_classifier_is_refused(name: str) -> None:
    make, sentence = REFUSED[name]
    with pytest.raises(InputError, match=sentence):
        sc.Routed(smoothed(plane(0), sc.Gaussian(SIGMA_R)), make())
