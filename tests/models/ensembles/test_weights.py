"""SWEEN and minimum-variance weights, ranking, and hold-out data, on members whose truth is known."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.analysis.robustness import at_least
from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator, input_id
from smoothcert.models.ensembles import (
    SoftmaxVoting,
    SoftVoting,
    minimum_variance_weights,
    minimum_variance_weights_per_input,
    rank,
    refuse_overlap,
    sween_weights,
)
from smoothcert.models.ensembles.minimum_variance import objective_matrix, perturbed
from smoothcert.models.ensembles.radius_weights import radius_weights
from smoothcert.models.ensembles.sampling import label_probabilities, noisy_logits
from smoothcert.noise import Gaussian

NOISE = Gaussian(0.4)


class Knower(nn.Module):
    """Answers the sign of the first coordinate as surely as `scale`, plus something of its own."""

    def __init__(self, scale: float, own: float, seed: int) -> None:
        super().__init__()
        self.out = nn.Linear(8, 3)
        with torch.no_grad():
            self.out.bias.zero_()
            self.out.weight.normal_(0, own, generator=torch.Generator().manual_seed(seed))
            self.out.weight[0, 0] += scale
            self.out.weight[1, 0] -= scale

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(x)
        return scores


@pytest.fixture
def members() -> list[nn.Module]:
    return [Knower(2.0, 0.6, 1), Knower(1.5, 0.9, 2), Knower(0.0, 1.0, 3), Knower(2.5, 1.2, 4)]


@pytest.fixture(scope="module")
def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] < 0).long()


def test_sween_convex_is_the_optimum_of_equation_12(members: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    found = sween_weights(members, x, y, noise=NOISE, method="convex", draws=20)
    assert found.gap is not None
    assert sum(found.weights) == pytest.approx(1)
    assert found.gap <= 1e-8
    p, _ = label_probabilities(members, x, y, NOISE, 20, 0, "sween convex")
    G = p.mean(axis=1)

    def loss(w: np.ndarray) -> float:  # type: ignore[type-arg]
        return -float(np.log(G @ w).mean())

    assert found.objective == pytest.approx(loss(np.array(found.weights)))
    rng = np.random.default_rng(0)
    assert all(loss(rng.dirichlet(np.ones(4))) >= found.objective for _ in range(2000))
    assert all(loss(w) >= found.objective for w in np.eye(4)), "no member alone is better"
    assert sween_weights(members, x, y, noise=NOISE, method="convex", draws=20) == found, "the seed decides"
    assert found.weights[2] < 0.05, "who knows nothing has little to say"
    SoftmaxVoting(members, found.weights)


def test_sween_sgd_comes_near_the_convex_optimum(members: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    """Of its own problem, one draw per input: the gap bounds what it left. And near equation 12 without much noise."""
    x, y = data
    calm = Gaussian(0.01)  # then the two problems are the same
    sgd, convex = (sween_weights(members, x, y, noise=calm, method=method) for method in ("sgd", "convex"))
    assert sgd.objective - convex.objective < 0.01 * convex.objective
    assert sgd.objective >= convex.objective - 1e-3
    assert np.argmax(sgd.weights) == np.argmax(convex.weights)
    equal = -np.log(label_probabilities(members, x, y, calm, 2, 0, "t")[0].mean(axis=(1, 2))).mean()
    assert sgd.objective < equal, "it has learned something"
    noisy = sween_weights(members, x, y, noise=NOISE, method="sgd")
    assert noisy.gap is not None
    assert 0 <= noisy.gap < 0.1
    few = sween_weights(members, x[:40], y[:40], noise=calm, method="sgd")
    assert max(few.weights) > 0.5, "as many steps with fewer inputs: it comes as far"
    one = sween_weights(members, x, y, noise=calm, method="sgd", steps=1)
    assert one.weights == pytest.approx([0.25] * 4, abs=0.01), "one step hardly moves"


def index(
    members: list[nn.Module], w: tuple[float, ...], x: Tensor, y: Tensor, gamma: Callable[[float], float]
) -> float:
    """By hard votes, on draws of its own."""
    noisy = x.repeat_interleave(200, 0) + 0.4 * torch.randn(200 * len(x), 8, generator=torch.Generator().manual_seed(9))
    votes = SoftVoting(members, w)(noisy).argmax(1).view(len(x), 200)
    shares = (votes == y[:, None]).double().mean(dim=1).clamp(max=0.9999)
    return float(np.mean([gamma(NOISE.radius(float(p))) if p > 0.5 else 0.0 for p in shares]))


def test_weights_by_the_measure_itself(members: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    """On inputs and draws that chose nothing they have a larger index than equal weights, for every gamma."""
    x, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for gamma in (lambda r: r, at_least(0.5), lambda r: r**2):
            found = sween_weights(members, x[:200], y[:200], noise=NOISE, gamma=gamma, of="logits")
            assert sum(found.weights) == pytest.approx(1)
            assert min(found.weights) >= 0
            assert found.gap is None
            new = index(members, found.weights, x[200:], y[200:], gamma)
            assert new > index(members, (0.25,) * 4, x[200:], y[200:], gamma)
            assert found == sween_weights(members, x[:200], y[:200], noise=NOISE, gamma=gamma, of="logits")
    scores = noisy_logits(members, x[:50], NOISE, 32, 0, "sween radius").astype(np.float32)
    w, found_index = radius_weights(scores, y[:50].numpy(), NOISE, lambda r: r, signed=False)
    again, _ = radius_weights(scores[:, :, ::-1], y[:50].numpy(), NOISE, lambda r: r, signed=False)
    assert list(again[::-1]) == pytest.approx(list(w), abs=0.25), "the order of members hardly matters"
    assert found_index > 0


def test_a_member_that_is_wrong_is_subtracted(data: tuple[Tensor, Tensor]) -> None:
    """Two members share an error that a third has alone: with a weight below zero it is taken away again."""
    x, y = data
    good, bad = Knower(1.0, 0.0, 1), Knower(0.0, 0.0, 2)
    with torch.no_grad():
        for net, size in ((good, 1.0), (bad, 1.0)):
            net.out.weight[0, 1] += size  # both like class 0 where the second coordinate is large
            net.out.weight[1, 1] -= size
    signed = sween_weights([good, bad], x[:200], y[:200], noise=NOISE, of="logits", signed=True)
    assert signed.weights[1] < -0.2
    with pytest.warns(UserWarning, match="member 1 of 2 has 100.0% of the weight: what is left is that member alone"):
        alone = sween_weights([good, bad], x[:200], y[:200], noise=NOISE, of="logits")
    assert alone.weights == (1.0, 0.0)
    assert any("that member alone" in note for note in alone.notes)
    for gamma in (lambda r: r, at_least(0.3)):
        pair = [index([good, bad], w, x[200:], y[200:], gamma) for w in (signed.weights, alone.weights)]
        assert pair[0] > pair[1]
    voting = SoftVoting([good, bad], (1.2, -0.2))
    assert voting.options() == {"weights": [1.2, -0.2]}
    assert torch.allclose(voting(x[:3]), 1.2 * good(x[:3]) - 0.2 * bad(x[:3]), atol=1e-6)
    with pytest.raises(InputError, match="weights must be finite and have a positive sum"):
        SoftVoting([good, bad], (0.2, -1.2))
    with pytest.raises(InputError, match="not negative and not all zero"):
        SoftmaxVoting([good, bad], (1.2, -0.2))


def test_what_weights_need_is_checked(members: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    for options, words in [
        ({"method": "newton"}, "method must be 'radius', 'convex' or 'sgd', got 'newton'"),
        ({"method": "sgd", "signed": True}, "go with method 'radius', not with 'sgd'"),
        ({"method": "convex", "steps": 5}, "steps goes with method 'sgd', not with 'convex'"),
        ({"signed": True}, "signed goes with of='logits'"),
        ({"of": "votes"}, "of must be 'probabilities' or 'logits'"),
        ({"gamma": lambda r: -r}, "gamma must map radii to non-negative"),
        ({"method": "sgd", "draws": 5}, "draws does not go with method 'sgd'"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"apart_from": x[7:9]}, r"2 of the 2 inputs of apart_from were held out .* row 0"),
    ]:
        with pytest.raises(InputError, match=words):
            sween_weights(members, x, y, noise=NOISE, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="got 400 inputs and 3 labels"):
        rank(members, x, y[:3], noise=NOISE)
    with pytest.raises(InputError, match="were held out"):
        minimum_variance_weights(members, x[:4], noise=NOISE, apart_from=x)
    rank(members, x[:50], y[:50], noise=NOISE, apart_from=x[50:])
    refuse_overlap({input_id(one) for one in x[:50]}, x[50:])
    with pytest.raises(InputError, match="1 of the 351 inputs of --data D were held out"):
        refuse_overlap({input_id(one) for one in x[:50]}, x[49:], "--data D")


def test_ranking_is_by_accuracy_under_noise(members: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    found = rank(members, x, y, noise=NOISE, draws=20)
    assert sorted(found.order) == [0, 1, 2, 3]
    assert [found.accuracy[k] for k in found.order] == sorted(found.accuracy, reverse=True)
    assert found.order[-1] == 2
    noisy = x.repeat_interleave(50, 0) + 0.4 * torch.randn(20_000, 8, generator=torch.Generator().manual_seed(9))
    for member, accuracy in zip(members, found.accuracy, strict=True):
        truth = float((member(noisy).argmax(1) == y.repeat_interleave(50)).double().mean())
        # 400 inputs are the same in both: 8000 and 20_000 draws, four standard errors of each.
        assert accuracy == pytest.approx(truth, abs=4 * (0.5 / 8_000**0.5 + 0.5 / 20_000**0.5))
    again = [members[k] for k in (3, 2, 1, 0)]
    assert [3 - k for k in rank(again, x, y, noise=NOISE, draws=20).order] == list(found.order)


def test_the_papers_quadratic_is_wrong_and_ours_is_not() -> None:
    """Monte Carlo: the variance of w z1 + (1-w) z2 against both ways of writing it, and the weights both ways give."""
    rng = np.random.default_rng(1)
    n = 200_000
    shared = rng.normal(size=n)
    z = 2 + np.stack([shared + 0.3 * rng.normal(size=n), 1.5 * shared + 0.3 * rng.normal(size=n)])
    covariance = np.cov(z, ddof=0)
    b, c, d = covariance[0, 0], 2 * covariance[0, 1], covariance[1, 1]
    w = 0.7
    truth = float((w * z[0] + (1 - w) * z[1]).var())
    ours = (b - c + d) * w**2 + (c - 2 * d) * w + d
    papers = (b + c + d) * w**2 - (c + 2 * d) * w + d
    assert ours == pytest.approx(truth, rel=1e-9)
    assert abs(papers - truth) > 0.3 * truth
    best = np.clip(-(c - 2 * d) / (2 * (b - c + d)), 0, 1)
    theirs = np.clip((c + 2 * d) / (2 * (b + c + d)), 0, 1)
    assert (best * z[0] + (1 - best) * z[1]).var() < 0.9 * (theirs * z[0] + (1 - theirs) * z[1]).var()
    Q, floored = objective_matrix(z[:, :, None])
    assert floored == 0
    assert Q[0, 0] / Q[0, 1] == pytest.approx(2 * b / c)
    assert Q[0, 0] == pytest.approx(b / z.mean(axis=1).min() ** 2)


def test_perturbed_parameters_come_back_bit_by_bit() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3)).half()
    with torch.no_grad():
        net[0].weight[0, 0, 0, 0] = -0.0
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with perturbed(net, 0.3, 0.01, generator(0, "", "test", 0)):
        changed = torch.cat(
            [(p != before[name]).flatten() for name, p in net.named_parameters() if p.dim() > 1]
        )  # biases start at numbers that a half cannot move
        assert 0.15 < float(changed.double().mean()) < 0.35
        first = net[0].weight.clone()
    again = None

    def stopped() -> None:
        nonlocal again
        with perturbed(net, 0.3, 0.01, generator(0, "", "test", 0)):
            again = net[0].weight.clone()
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stopped()
    assert again is not None
    assert torch.equal(again, first), "the generator decides"
    for name, value in net.state_dict().items():
        assert value.numpy().tobytes() == before[name].numpy().tobytes(), "also the sign of a zero"


class Breaking(Knower):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("broken")


def test_members_are_as_before_also_after_an_error(members: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    every = [*members, Breaking(1.0, 1.0, 7)]
    for member in every:
        member.train()
    before = [value.clone() for member in every for value in member.state_dict().values()]
    with pytest.raises(ValueError, match="broken"):
        minimum_variance_weights(every, data[0][:5], noise=NOISE)
    after = [value for member in every for value in member.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))
    assert all(module.training for member in every for module in member.modules())


def test_minimum_variance_prefers_who_varies_less(data: tuple[Tensor, Tensor]) -> None:
    calm, wild = Knower(2.0, 0.1, 1), Knower(2.0, 3.0, 2)
    x = data[0][data[0][:, 0].abs() > 1][:40]
    found = minimum_variance_weights([calm, wild], x, noise=NOISE)
    assert found.weights[0] > 0.8
    assert found.gap < 1e-9
    assert found == minimum_variance_weights([calm, wild], x, noise=NOISE)
    each = minimum_variance_weights_per_input([calm, wild], x, noise=NOISE)
    assert len(each) == len(x)
    assert len({one.weights for one in each}) > 1
    twins = minimum_variance_weights([calm, wild, wild], x, noise=NOISE)
    assert sum(twins.weights) == pytest.approx(1)
    lost = minimum_variance_weights([wild, calm], 0 * x, noise=NOISE)
    assert any("count as 0.05" in note for note in lost.notes), "margins that are not positive are said"
