"""`Smoothed` with a search: one call, the right scope, and the noise of each input in its certificate."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.randomness import BLOCK, generator, input_id
from smoothcert.engine.sigma import Bracket
from smoothcert.procedures import Scope


class Band(nn.Module):
    """Class 0 where the first coordinate is above 0; the rest is not looked at."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[:, 0], -x[:, 0]], dim=1)


X = torch.tensor([[0.2, 0.0], [0.9, 0.0], [0.5, 1.0]])


def smoothed(**options: object) -> sc.Smoothed:
    return sc.Smoothed(Band(), 2, sc.Gaussian(0.25), seed=3, workers=1, **options)  # type: ignore[arg-type]


def sigmas(g: sc.Smoothed) -> list[float]:
    return [dataclasses.asdict(noise)["sigma"] for noise in g.noises(X)]


def test_one_call_finds_sigmas_and_certifies_with_them() -> None:
    g, procedure = smoothed(search=Bracket(n=2000)), sc.Fixed(n=2000)
    noises = g.noises(X)
    certificates = g.certify(X, procedure)
    assert [c.noise["sigma"] for c in certificates] == sigmas(g)
    assert len({noise.strength for noise in noises}) > 1
    assert {c.scope for c in certificates} == {Scope.OWN}
    assert all("this input's own classifier" in str(c) for c in certificates)
    by_hand = smoothed().certify(X, procedure, noises=noises)
    assert by_hand == certificates, "the same as giving the noises"
    fixed = smoothed().certify(X, procedure)
    assert {c.scope for c in fixed} == {Scope.FIXED}
    # |x| is the radius of a half-space at any sigma; what a certificate of 2000 draws shows of it grows with sigma.
    assert sum(c.radius for c in certificates) > sum(c.radius for c in fixed)
    assert all(c.radius <= x for c, x in zip(certificates, X[:, 0].tolist(), strict=True))


def test_draws_that_choose_are_not_draws_that_bound() -> None:
    """Streams of the purposes are apart: not one block of the search is a block of a certificate."""
    name = input_id(X[0])
    chosen = torch.randn(BLOCK, 2, generator=generator(3, name, "sigma", 0))
    for purpose in ("choose", "bound", "predict"):
        assert not torch.equal(chosen, torch.randn(BLOCK, 2, generator=generator(3, name, purpose, 0)))
    g = smoothed(search=Bracket(n=2000))
    noises = g.noises(X)
    again = smoothed().certify(X, sc.Fixed(n=2000), noises=noises)
    assert [c.answers for c in again] == [c.answers for c in g.certify(X, sc.Fixed(n=2000))]


def test_workers_and_grids_change_nothing_but_the_noise() -> None:
    one, two = (
        sc.Smoothed(Band(), 2, sc.Gaussian(0.25), seed=3, workers=n, search=Bracket()).noises(X) for n in (1, 2)
    )
    assert one == two
    gridded = sc.Smoothed(Band(), 2, sc.Gaussian(0.25, grid=1 / 255), seed=3, workers=1, search=Bracket()).noises(X)
    assert [dataclasses.asdict(noise)["sigma"] for noise in gridded] == [
        dataclasses.asdict(noise)["sigma"] for noise in one
    ]
    assert all(dataclasses.asdict(noise)["grid"] == 1 / 255 for noise in gridded)


def test_predictions_search_too() -> None:
    g = smoothed(search=Bracket())
    answers = g.predict(X, sc.Predict(n=200))
    assert [a.noise["sigma"] for a in answers] == sigmas(g)
    assert [a.label for a in answers] == [0, 0, 0]


def test_without_a_search_all_have_the_noise() -> None:
    assert [noise.strength for noise in smoothed().noises(X)] == [0.25] * 3
    assert smoothed().search is None


def test_other_noises_have_their_strengths() -> None:
    for noise in (sc.Uniform(0.5), sc.Laplace(0.25)):
        g = sc.Smoothed(Band(), 2, noise, workers=1, search=Bracket(n=2000))
        own = g.certify(X, sc.Fixed(n=2000))
        assert {c.norm for c in own} == {"l1"}
        found = [getattr(one, noise.strength_name) for one in g.noises(X)]
        assert [c.noise[noise.strength_name] for c in own] == found


def test_more_inputs_than_are_searched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = smoothed(search=Bracket()).noises(X)
    monkeypatch.setattr("smoothcert.engine.sigma.base.AT_ONCE", 2)
    assert smoothed(search=Bracket()).noises(X) == whole
