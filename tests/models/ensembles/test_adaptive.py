"""K-consensus and early exit against a loop over samples that reads like the papers; and what they cost."""

import itertools
import math
from statistics import NormalDist
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from smoothcert.engine import MemberCalls, Smoothed
from smoothcert.engine.backends import ensemble
from smoothcert.models.ensembles import Consensus, EarlyExit, SoftmaxVoting, SoftVoting
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Predict

CLASSES = 4


@pytest.fixture(scope="module")
def members() -> list[nn.Module]:
    torch.manual_seed(3)
    out: list[nn.Module] = []
    base = nn.Linear(6, CLASSES)
    for _ in range(5):
        net = nn.Linear(6, CLASSES)
        with torch.no_grad():
            net.weight.copy_(3 * base.weight + net.weight)  # they agree more often than not
        out.append(net.eval().requires_grad_(False))
    return out


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.randn(500, 6, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_consensus_is_the_loop_over_samples(members: list[nn.Module], x: Tensor, k: int) -> None:
    wanted, stopped = [], 0
    for one in x:
        scores = [member(one[None])[0].double() for member in members]
        agreed = len({int(score.argmax()) for score in scores[:k]}) == 1
        stopped += agreed
        wanted.append(torch.stack(scores[:k] if agreed else scores).mean(0))
    runner = ensemble.EnsembleRunner(Consensus(members, k), members)
    assert torch.allclose(runner(x).double(), torch.stack(wanted), atol=1e-5)
    rest = len(x) - stopped if k < 5 else len(x)
    assert runner.member_calls == [len(x)] * k + [rest] * (5 - k)
    assert k == 5 or (k == 1 and stopped == len(x)) or 50 < stopped < 450, "both ways are tested"


def test_consensus_of_all_members_is_soft_voting(members: list[nn.Module], x: Tensor) -> None:
    assert torch.equal(Consensus(members, k=5)(x), SoftVoting(members)(x))


def algorithm_1(members: list[nn.Module], weights: list[float], T: float, a: float, x: Tensor) -> tuple[Tensor, int]:
    """Liu et al. 2021, algorithm 1, line by line, for one input."""
    z = NormalDist().inv_cdf(1 - a / 2)
    order = sorted(range(len(weights)), key=lambda m: -weights[m])
    p: list[Tensor] = []
    for i in range(1, len(members) + 1):
        p.append(members[order[i - 1]](x[None])[0].double().softmax(0))
        w = [weights[m] for m in order[:i]]
        mean = sum(wj * pj for wj, pj in zip(w, p, strict=True)) / sum(w)
        assert isinstance(mean, Tensor)
        k = int(mean.argmax())
        if i == 1:
            if mean[k] > T:
                break
        else:
            spread = sum(wj * (pj[k] - mean[k]) ** 2 for wj, pj in zip(w, p, strict=True)) / sum(w)
            if mean[k] > 0.5 + z * math.sqrt(sum(wj**2 for wj in w)) / sum(w) * math.sqrt(spread):
                break
    return mean, i


@pytest.mark.parametrize(("T", "a"), [(0.999, 0.05), (0.8, 0.3), (1.0, 0.01)])
def test_early_exit_is_the_loop_over_samples(members: list[nn.Module], x: Tensor, T: float, a: float) -> None:
    weights = [0.1, 0.35, 0.2, 0.05, 0.3]
    wanted = [algorithm_1(members, weights, T, a, one) for one in x]
    runner = ensemble.EnsembleRunner(EarlyExit(members, weights, threshold=T, a=a), members)
    assert torch.allclose(runner(x).double().exp(), torch.stack([mean for mean, _ in wanted]), atol=1e-6)
    order = sorted(range(5), key=lambda m: -weights[m])
    asked = [sum(i > place for _, i in wanted) for place in range(5)]
    assert [runner.member_calls[m] for m in order] == asked
    assert len({i for _, i in wanted}) >= 3, "it stops at different places"


def test_early_exit_that_never_exits_is_softmax_voting(members: list[nn.Module], x: Tensor) -> None:
    weights = [3.0, 1, 2, 5, 4]
    full, never = SoftmaxVoting(members, weights)(x), EarlyExit(members, weights, threshold=1.0, a=0)(x)
    assert torch.allclose(full, never, atol=1e-5)
    assert torch.equal(full.argmax(1), never.argmax(1))
    same = [members[0]] * 3  # no spread: infinity times zero
    assert ensemble.EnsembleRunner(EarlyExit(same, threshold=1.0, a=0), same)(x).shape == (500, CLASSES)


def test_a_member_without_weight_is_not_asked(members: list[nn.Module], x: Tensor) -> None:
    for kind in (SoftVoting, SoftmaxVoting, EarlyExit):
        runner = ensemble.EnsembleRunner(kind(members, [1, 0, 2, 0, 0]), members)
        assert torch.allclose(runner(x), kind([members[0], members[2]], [1, 2])(x), atol=1e-6)
        assert runner.member_calls[1] == runner.member_calls[3] == runner.member_calls[4] == 0


def test_evaluations_are_counted_over_workers_and_calls(members: list[nn.Module], x: Tensor) -> None:
    """What `MemberCalls` says is what a single worker would have asked, and no part of the classifier."""
    found = {}
    for workers in (1, 2):
        model = Consensus(members, k=2)
        g = Smoothed(model, CLASSES, Gaussian(0.5), workers=workers)
        calls = MemberCalls()
        assert calls.per_member == ()
        first = g.certify(x[:4], Fixed(n0=100, n=500), member_calls=calls)
        found[workers] = calls.per_member
        assert found[workers][:2] == (2400, 2400)
        assert 0 < found[workers][2] == found[workers][4] < 2400
        again = MemberCalls()
        assert g.certify(x[:4], Fixed(n0=100, n=500), member_calls=again)[0].classifier == first[0].classifier
        assert again.per_member == found[workers], "a call counts for itself"
        g.certify(x[:4], Fixed(n0=100, n=500), member_calls=calls)
        assert calls.per_member == tuple(2 * count for count in found[workers])
        predicted = MemberCalls()
        g.predict(x[:4], Predict(n=300), member_calls=predicted)
        assert predicted.per_member[:2] == (1200, 1200)
    assert found[1] == found[2]
    assert model.cost(found[1]).startswith(f"{sum(found[1]) / 2400:.2f} of 5 members were asked per draw; the first 2")
    none = MemberCalls()
    Smoothed(members[0], CLASSES, Gaussian(0.5)).certify(x[:2], Fixed(n0=100, n=500), member_calls=none)
    assert none.per_member == ()


@pytest.mark.slow
def test_compiled_members_vote_as_eager_ones(members: list[nn.Module], x: Tensor) -> None:
    found = [
        [c.votes for c in Smoothed(Consensus(members[:3]), CLASSES, Gaussian(0.5), backend=name).certify(x[:3])]
        for name in ("eager", "compile")
    ]
    assert sum(abs(a - b) for p, q in zip(*found, strict=True) for a, b in zip(p, q, strict=True)) <= 300  # of 300_000


class Jealous(nn.Module):
    """Its last bits depend on who else is in the batch, as kernels may make them."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x) + 1e-6 * x.mean()
        return scores


class Content(nn.Module):
    """The same function as a linear layer, by additions and multiplications of one number each: the same bits in any
    company on every processor, which no matrix product promises."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.weight, self.bias = net.weight, net.bias

    def forward(self, x: Tensor) -> Tensor:
        scores = self.bias.expand(len(x), -1)
        for place in range(self.weight.shape[1]):
            scores = scores + x[:, place, None] * self.weight[:, place]
        return scores


def test_open_rows_of_blocks_are_gathered_only_where_company_does_not_matter(
    members: list[nn.Module], x: Tensor
) -> None:
    """On every processor: whether a matrix product is the same in any company is up to its kernels."""
    for kind, batch_size in itertools.product((Content, Jealous, lambda net: net), (None, 384)):
        g = Smoothed(Consensus([kind(member) for member in members]), CLASSES, Gaussian(0.5), batch_size=batch_size)
        compiled = g.compile(x.shape[1:])
        gathered = compiled.rows == ensemble.GATHERED * (batch_size or 128)
        assert gathered or compiled.rows == 128
        assert gathered or kind is not Content
        assert not gathered or kind is not Jealous
        said = str(compiled.note)
        assert gathered == (said == "None") == ("every 128 draws of a request are run by themselves" not in said)
        assert kind is not Jealous or "the scores of 5 of 5 members depend" in said
        together = [c.votes for c in g.certify(x[:6], Fixed(n0=100, n=1000))]
        assert [g.certify(one, Fixed(n0=100, n=1000))[0].votes for one in x[:6]] == together


class Noting(Content):
    """Notes in how many rows it is called."""

    rows: ClassVar[set[int]] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.rows.add(len(x))
        return super().forward(x)


def test_members_are_called_in_one_shape_however_few_draws_are_asked_for(members: list[nn.Module], x: Tensor) -> None:
    """Another shape would be another network to a compiled member, and other last bits to any."""
    g = Smoothed(Consensus([Noting(member) for member in members]), CLASSES, Gaussian(0.5), batch_size=256, workers=2)
    g.compile(x.shape[1:])
    Noting.rows.clear()
    for _ in range(2):
        g.certify(x[:3], Fixed(n0=10, n=700))
        g.predict(x[:1], Predict(n=20))
    assert Noting.rows == {256}


def test_memory_is_bounded_for_large_inputs() -> None:
    large = torch.rand(1, 3, 512, 512)
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), Content(nn.Linear(3, CLASSES)))
    wide = Smoothed(Consensus([net, net]), CLASSES, Gaussian(0.5), batch_size=16).compile(large.shape[1:])
    assert wide.rows == 128
