"""Weights of each input's own: what is sampled, what is claimed, and what a memory makes of it."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.engine import OwnWeights, Smoothed
from smoothcert.memory import Memory
from smoothcert.models.ensembles import SoftmaxVoting, minimum_variance_weights_per_input
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Predict, Scope

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


def test_each_input_is_certified_with_its_own_weights(members: list[nn.Module], x: Tensor) -> None:
    own = OwnWeights(members, CLASSES, NOISE, seed=3)
    found = own.certify(x, QUICK)
    wanted = minimum_variance_weights_per_input(members, x, noise=NOISE, seed=3)
    for one, certificate, weights in zip(x, found, wanted, strict=True):
        assert certificate.scope is Scope.OWN
        assert certificate.classifier["weights"] == pytest.approx(list(weights.weights))
        plain = Smoothed(SoftmaxVoting(members, weights.weights), CLASSES, NOISE, seed=3).certify(one, QUICK)[0]
        assert (certificate.label, certificate.radius, certificate.votes) == (plain.label, plain.radius, plain.votes)
    assert len({tuple(c.classifier["weights"]) for c in found}) > 1, "they differ from input to input"
    assert len({c.classifier["fingerprint"] for c in found}) == 1, "and are of one family"
    assert own.certify(x[3:4], QUICK) == found[3:4], "whoever else is certified"
    answers = own.predict(x, Predict(n=200))
    assert all(answer.scope is Scope.OWN for answer in answers)
    assert [a.label for a, c in zip(answers, found, strict=True) if not a.abstained and not c.abstained] == [
        c.label for a, c in zip(answers, found, strict=True) if not a.abstained and not c.abstained
    ]


def test_a_memory_makes_one_classifier_of_them(members: list[nn.Module], x: Tensor, tmp_path: Path) -> None:
    with Memory(tmp_path / "m.sqlite") as memory:
        own = OwnWeights(members, CLASSES, NOISE, memory=memory)
        found = own.certify(x, QUICK)
        assert all(c.scope is Scope.MEMORY for c in found)
        certified = [(one, c) for one, c in zip(x, found, strict=True) if not c.abstained]
        assert len(memory) > 0
        for (one, a), (other, b) in itertools.combinations(certified, 2):
            apart = float((one.double() - other.double()).norm())
            assert a.label == b.label or a.radius + b.radius <= apart
        for one, c in certified:
            step = torch.randn(4, generator=torch.Generator().manual_seed(2))
            near = one + 0.9 * c.radius * step / step.norm()
            (answer,) = own.predict(near[None])
            assert (answer.label, answer.scope, answer.draws) == (c.label, Scope.MEMORY, 0)
        far = own.predict(x[:1] + 100, Predict(n=200))[0]
        assert (far.scope, far.draws) == (Scope.OWN, 200)
        with pytest.raises(InputError, match="belongs to another classifier"):
            Smoothed(SoftmaxVoting(members), CLASSES, NOISE, memory=memory).certify(x, QUICK)


def test_refusals(members: list[nn.Module], x: Tensor) -> None:
    with pytest.raises(InputError, match="backend of OwnWeights must be named, got 'auto'"):
        OwnWeights(members, CLASSES, NOISE, backend="auto")
    with pytest.raises(InputError, match=r"must be a batch \(B, \.\.\.\), got \(4,\); give x\[None\]"):
        OwnWeights(members, CLASSES, NOISE).certify(x[0], QUICK)
