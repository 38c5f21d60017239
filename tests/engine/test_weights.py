"""Weights of each input's own: what is sampled, what is claimed, and what a memory makes of it."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import LeastVariance, MarginRatio, Routed, Smoothed, WeightSearch
from smoothcert.engine.pools import Processes
from smoothcert.engine.weights import apart, weight_search
from smoothcert.memory import Memory
from smoothcert.models.ensembles import (
    SoftmaxVoting,
    SoftVoting,
    margin_ratio_weights_per_input,
    minimum_variance_weights_per_input,
)
from smoothcert.models.ensembles.solvers import best_ratio
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed, Predict, Scope

CLASSES, NOISE, QUICK = 3, Gaussian(0.4), Fixed(n0=100, n=500)


@pytest.fixture(scope="module")
def members() -> list[nn.Module]:
    """They agree more often than not, and one is noisier than the others."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        base, out = nn.Linear(4, CLASSES), []
        for size in (1.0, 2.0, 6.0):
            net = nn.Linear(4, CLASSES)
            with torch.no_grad():
                net.weight.copy_(size * (2 * base.weight + net.weight))
            out.append(net.eval().requires_grad_(False))
    return out


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.rand(5, 4, generator=torch.Generator().manual_seed(1))


def own(members: list[nn.Module], weights: WeightSearch, **more: object) -> Smoothed:
    return Smoothed(SoftmaxVoting(members), CLASSES, NOISE, weights=weights, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("search", [LeastVariance(), MarginRatio(50)], ids=lambda search: search.name)
def test_each_input_is_certified_with_its_own_weights(
    members: list[nn.Module], x: Tensor, search: WeightSearch
) -> None:
    g = own(members, search, seed=3, workers=1)
    found = g.certify(x, QUICK)
    if isinstance(search, LeastVariance):
        wanted = minimum_variance_weights_per_input(members, x, noise=NOISE, seed=3)
    else:
        wanted = margin_ratio_weights_per_input(members, x, noise=NOISE, draws=50, seed=3)
    assert [apart(one, two.weights) < 1e-6 for one, two in zip(g.own_weights(x), wanted, strict=True)] == [True] * 5
    for one, certificate, weights in zip(x, found, g.own_weights(x), strict=True):
        assert certificate.scope is Scope.OWN
        assert certificate.weights == weights
        plain = Smoothed(SoftmaxVoting(members, weights), CLASSES, NOISE, seed=3).certify(one, QUICK)[0]
        assert (certificate.label, certificate.radius, certificate.votes) == (plain.label, plain.radius, plain.votes)
        assert Certificate.from_json(certificate.to_json()) == certificate
    assert len({c.weights for c in found}) > 1 or search.name == "ratio", "they differ from input to input"
    assert len({c.classifier["fingerprint"] for c in found}) == 1, "and are of one family"
    assert found[0].classifier["own_weights"] == search.describe()
    assert WeightSearch.from_description(search.describe()) == search
    assert own(members, search, seed=3, workers=2).certify(x[3:4], QUICK) == found[3:4], "whoever else is certified"
    answers = g.predict(x, Predict(n=200))
    assert all(answer.scope is Scope.OWN for answer in answers)
    assert [answer.weights for answer in answers] == [c.weights for c in found]
    given = dict(g.certifying(x[:2], QUICK, weights=[(0.2, 0.3, 0.5)] * 2))
    plain = Smoothed(SoftmaxVoting(members, (0.2, 0.3, 0.5)), CLASSES, NOISE, seed=3)
    assert [given[row].votes for row in (0, 1)] == [c.votes for c in plain.certify(x[:2], QUICK)]


def test_another_process_gives_the_same(members: list[nn.Module], x: Tensor) -> None:
    here = own(members, MarginRatio(20), workers=1).certify(x[:2], QUICK)
    there = own(members, MarginRatio(20), pool=Processes(1)).certify(x[:2], QUICK)
    assert [(c.weights, c.votes) for c in there] == [(c.weights, c.votes) for c in here]


def test_the_best_ratio_is_the_best(members: list[nn.Module]) -> None:
    """Against a fine grid of the simplex, and by hand for two independent members: w ~ mean / variance."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        A, mean = rng.standard_normal((3, 6)), rng.uniform(-0.2, 1.0, 3)
        Q = A @ A.T
        _, ratio = best_ratio(mean, Q)
        grid = [np.array([i, j, 60 - i - j]) / 60 for i in range(61) for j in range(61 - i)]
        best = max(float(mean @ w / np.sqrt(w @ Q @ w)) for w in grid)
        assert best - 1e-12 <= ratio <= best * 1.01 + 1e-3
    w, ratio = best_ratio(np.array([0.4, 0.2]), np.diag([0.04, 0.01]))
    assert w == pytest.approx([1 / 3, 2 / 3])  # 0.4/0.04 : 0.2/0.01
    assert ratio == pytest.approx(np.sqrt(0.4**2 / 0.04 + 0.2**2 / 0.01))
    w, ratio = best_ratio(np.array([-0.4, -0.2]), np.diag([0.04, 0.01]))
    assert list(w) == [0.5, 0.5]
    assert ratio < 0


def test_a_memory_makes_one_classifier_of_them(members: list[nn.Module], x: Tensor, tmp_path: Path) -> None:
    with Memory(tmp_path / "m.sqlite") as memory:
        g = own(members, LeastVariance(), memory=memory)
        found = g.certify(x, QUICK)
        assert all(c.scope is Scope.MEMORY for c in found)
        certified = [(one, c) for one, c in zip(x, found, strict=True) if not c.abstained]
        assert len(memory) > 0
        for (one, a), (other, b) in itertools.combinations(certified, 2):
            apart = float((one.double() - other.double()).norm())
            assert a.label == b.label or a.radius + b.radius <= apart
        for one, c in certified:
            step = torch.randn(4, generator=torch.Generator().manual_seed(2))
            near = one + 0.9 * c.radius * step / step.norm()
            (answer,) = g.predict(near[None])
            assert (answer.label, answer.scope, answer.draws) == (c.label, Scope.MEMORY, 0)
        far = g.predict(x[:1] + 100, Predict(n=200))[0]
        assert (far.scope, far.draws) == (Scope.OWN, 200)
        for other in (LeastVariance(draws=5), MarginRatio(), None):
            with pytest.raises(InputError, match="belongs to another classifier"):
                own(members, other, memory=memory).certify(x, QUICK)  # type: ignore[arg-type]


def test_refusals(members: list[nn.Module], x: Tensor) -> None:
    with pytest.raises(InputError, match="the model is soft-voting; make an ensemble with the aggregation softmax"):
        Smoothed(SoftVoting(members), CLASSES, NOISE, weights=LeastVariance())
    with pytest.raises(InputError, match="the model is Linear"):
        Smoothed(members[0], CLASSES, NOISE, weights=LeastVariance())
    with pytest.raises(InputError, match="no search for weights 'best': the names are ratio, variance"):
        weight_search("best")
    with pytest.raises(InputError, match="weights by ratio have no copies; leave it out"):
        weight_search("ratio", copies=3)
    with pytest.raises(InputError, match="draws of ratio must be at least 2"):
        MarginRatio(1)
    with pytest.raises(InputError, match="not both 1"):
        LeastVariance(draws=1, copies=1)
    with pytest.raises(InputError, match="weights must be one per input"):
        next(own(members, MarginRatio()).certifying(x, QUICK, weights=[(1.0, 0.0, 0.0)]))


def test_who_would_draw_without_the_weights_is_refused(members: list[nn.Module], x: Tensor) -> None:
    """A router's parts and a server hold conversations of their own: they would sample another classifier."""
    g = own(members, MarginRatio(20))
    with pytest.raises(InputError, match="cannot have weights per input"):
        next(g.drawing(x).conversations(x, iter(())))
    router = Smoothed(lambda z: z[:, :2], 2, NOISE)
    with pytest.raises(InputError, match="one noise and one set of weights for all inputs"):
        Routed(router, {0.4: g, 0.5: Smoothed(members[0], CLASSES, Gaussian(0.5))})
