"""What searches share: known optima, determinism, floors and caps, where they can end, what is refused."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.engine.pools import Threads
from smoothcert.engine.sigma import DDRS, SEARCHES, Bracket, Grid, SigmaSearch, sigma_search
from smoothcert.engine.sigma.base import RunAll
from smoothcert.engine.sigma.bracket import best_of, win_rate
from smoothcert.engine.sigma.strength_steps import PER_OCTAVE, nearest, strength
from smoothcert.noise import Noise

STEP = 2 ** (1 / PER_OCTAVE)
N, ALPHA = 100_000, 0.001


def one_by_one(model: Callable[[Tensor], Tensor]) -> RunAll:
    return lambda works: [work.search.find(model, work.x, work.noise, work.seed) for work in works]


def side_by_side(model: nn.Module, workers: int) -> RunAll:
    """In the threads of a pool."""
    compiled = sc.Smoothed(model, 3, sc.Gaussian(0.5), workers=workers).compile((6,))
    return Threads(workers).open(compiled).map


def half_space(x: Tensor) -> Tensor:
    """Class 0 where the first coordinate is positive; scores are the signed distance and its opposite."""
    return torch.stack([x[:, 0], -x[:, 0]], dim=1)


class Ball(nn.Module):
    """Class 0 within a distance of 2 from the origin."""

    def forward(self, x: Tensor) -> Tensor:
        inside = 4 - x.square().sum(dim=1)
        return torch.stack([inside, -inside], dim=1)


def half_space_p(distance: float, sigma: float) -> float:
    return float(stats.norm.cdf(distance / sigma))


def ball_p(sigma: float, dim: int) -> float:
    """At the centre of the ball: P(|sigma e| < 2)."""
    return float(stats.chi2.cdf(4 / sigma**2, dim))


def shown(p: float, sigma: float) -> float:
    """The radius that N draws with this p are expected to show."""
    lower = stats.beta.ppf(ALPHA, N * p, N * (1 - p) + 1)
    return max(0.0, sigma * float(stats.norm.ppf(lower)))


def best(p: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """The best sigma in closed form but for the last step: a search in one dimension without noise."""
    found = optimize.minimize_scalar(lambda s: -shown(p(s), s), bounds=(low, high), method="bounded")
    return float(found.x), -float(found.fun)


@pytest.mark.parametrize("distance", [0.3, 0.5, 1.0])
def test_bracket_finds_the_optimum_of_a_half_space(distance: float) -> None:
    """At every sigma the radius is the distance, less what N draws cannot show: more for a large p, so sigma grows."""
    sigma0 = 0.5
    _, most = best(lambda s: half_space_p(distance, s), sigma0 / 4, sigma0 * 4)
    x = torch.tensor([[distance, 0.0]])
    sigmas = [sc.optimize_sigma(half_space, x, sigma0=sigma0, draws=256, seed=seed).item() for seed in range(5)]
    for sigma in sigmas:
        assert shown(half_space_p(distance, sigma), sigma) >= 0.95 * most, sigmas


@pytest.mark.parametrize(("dim", "share"), [(2, 0.95), (50, 0.9)])
def test_bracket_finds_the_optimum_of_a_ball(dim: int, share: float) -> None:
    """Here the radius has a peak, and in 50 dimensions a sharp one: a step of the lattice beyond it costs 7%."""
    sigma0 = 2 / math.sqrt(dim) / 2
    peak, most = best(lambda s: ball_p(s, dim), sigma0 / 4, sigma0 * 4)
    x = torch.zeros(1, dim)
    for seed in range(5):
        sigma = sc.optimize_sigma(Ball(), x, sigma0=sigma0, draws=256, seed=seed).item()
        assert shown(ball_p(sigma, dim), sigma) >= share * most, (seed, sigma, peak)


def test_bracket_finds_the_optimum_of_l1() -> None:
    """A slab |x_1| < 1 under uniform noise, at its middle: p = min(1, 1 / half_width), so half_width (2p - 1) <= 1."""
    x = torch.zeros(1, 3)

    def slab(z: Tensor) -> Tensor:
        inside = 1 - z[:, 0].abs()
        return torch.stack([inside, -inside], dim=1)

    for seed in range(5):
        width = sc.optimize_sigma(slab, x, sigma0=0.7, draws=256, noise=sc.Uniform, seed=seed).item()
        assert 1 / STEP < width < STEP**1.5, (seed, width)


def test_all_methods_come_to_the_peak_of_the_soft_radius() -> None:
    """Where the soft radius has its peak by quadrature: ddrs, from both sides, and grid."""
    scale, dim = 3.0, 4

    def soft(x: Tensor) -> Tensor:
        return scale * Ball()(x)

    eps = np.random.default_rng(0).standard_normal((200_000, dim))
    squares = np.square(eps).sum(axis=1)
    sigmas = np.geomspace(0.2, 2.0, 60)
    means = [float(special.expit(2 * scale * (4 - s * s * squares)).mean()) for s in sigmas]
    radii = [s * stats.norm.ppf(np.clip(p, 0.02, 0.98)) for s, p in zip(sigmas, means, strict=True)]
    peak = float(sigmas[int(np.argmax(radii))])
    x = torch.zeros(4, dim) + 1e-3 * torch.arange(4)[:, None]
    for sigma0, search in ((0.5, DDRS(300, 64, lr=0.01)), (0.8, DDRS(300, 64, lr=0.01)), (0.6, Grid(64, 256))):
        found = search.strengths(one_by_one(soft), soft, x, sc.Gaussian(sigma0), seed=0, threads=1)
        assert all(peak / STEP**1.5 <= sigma <= peak * STEP**1.5 for sigma in found), (peak, found)


@pytest.mark.parametrize("search", [Bracket(), DDRS(20, 4, lr=0.05), Grid(10, 4)], ids=lambda search: search.name)
@pytest.mark.parametrize("noise", [sc.Gaussian(0.5), sc.Uniform(0.5)], ids=lambda noise: noise.name)
def test_a_function_of_seed_input_and_settings(search: SigmaSearch, noise: Noise) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4)).eval()
    x = torch.rand(9, 6, generator=torch.Generator().manual_seed(2))

    def found(rows: Tensor, seed: int = 0, workers: int = 1) -> list[float]:
        run_all = one_by_one(net) if workers == 1 else side_by_side(net, workers)
        return search.strengths(run_all, net, rows, noise, seed=seed, threads=1)

    whole = found(x)
    assert len(set(whole)) > 1

    def same(other: list[float]) -> bool:
        return all(search.same(a, b) for a, b in zip(whole, other, strict=True))

    assert same(found(x.flip(0))[::-1]), "the order decides nothing"
    assert same([found(one[None])[0] for one in x]), "nor who else is there"
    assert same(found(x, workers=3)), "nor the workers"
    assert not same(found(x, seed=1))
    for sigma in whole:
        assert search.can_end(sigma, 0.5)
        assert 0.125 <= sigma <= 2.0 or search.name == "grid"
    if search.name != "bracket":
        assert any(strength(nearest(sigma)) != sigma for sigma in whole), "only our own search has a lattice"


def sure(x: Tensor) -> Tensor:
    """Always of class 0."""
    return torch.stack([5 + 0 * x[:, 0], -5 + 0 * x[:, 0]], dim=1)


@pytest.mark.parametrize("search", [Bracket(draws=256), DDRS(100, 256, lr=0.02)], ids=lambda search: search.name)
def test_floor_and_cap(search: Bracket | DDRS) -> None:
    """A classifier that is always sure pulls sigma to the cap; one whose class is a small ball, to the floor."""

    def small(x: Tensor) -> Tensor:
        inside = 8 - 12 * x.square().sum(dim=1)
        return torch.stack([inside, -inside], dim=1)

    x = torch.zeros(2, 3)
    assert search.strengths(one_by_one(sure), sure, x, sc.Gaussian(0.25), seed=0, threads=1) == [1.0, 1.0]
    near, start = dataclasses.replace(search, span=1.25), strength(-11)
    floor = strength(-13) if search.name == "bracket" else start / 1.25  # two steps of the lattice each way
    found = near.strengths(one_by_one(small), small, x, sc.Gaussian(start), seed=0, threads=1)
    assert found == pytest.approx([floor] * 2, abs=1e-7)


def test_the_grid_is_that_of_the_paper() -> None:
    """200 evaluations on (0, 1], wherever the search starts: who is always sure takes 1."""
    asked: list[float] = []

    def look(x: Tensor) -> Tensor:
        asked.extend(x.flatten(1).std(dim=1).tolist())
        return sure(x)

    x = torch.zeros(1, 4000)
    assert Grid().strengths(one_by_one(look), look, x, sc.Gaussian(0.25), seed=0) == [1.0]
    at_sigma0, tried = asked[:32], asked[32:]
    assert at_sigma0 == pytest.approx([0.25] * 32, rel=0.06)
    assert tried == pytest.approx([k / 200 for k in range(1, 201)], rel=0.06)  # 5 deviations of 4000 normals


def test_a_grid_with_a_span_is_around_sigma_0() -> None:
    """Beyond 1 too: who is always sure takes the largest, and an audit knows where such a search can end."""
    x, search = torch.zeros(1, 5), Grid(7, span=2.0)
    assert search.strengths(one_by_one(sure), sure, x, sc.Gaussian(3.0), seed=0) == [6.0]
    ends = [(1.5, True), (2.25, True), (6.0, True), (2.0, False), (1.0, False)]
    assert [(found, search.can_end(found, 3.0)) for found, _ in ends] == ends
    assert Grid(1, span=2.0).strengths(one_by_one(sure), sure, x, sc.Gaussian(3.0), seed=0) == [3.0]
    assert "span" not in Grid().describe()


def test_a_wider_span_is_kept() -> None:
    for span, most in ((1.5, 2 ** (4 / 8)), (8.0, 8.0), (64.0, 64.0)):
        found = Bracket(30, span=span).strengths(
            one_by_one(sure), sure, torch.zeros(1, 3), sc.Gaussian(1.0), seed=0, threads=1
        )
        assert found == [most]


def test_classifiers_without_gradients_or_scores_work() -> None:
    """Answers 0 or 1 have no margins to speak of: the votes alone decide, and laplace noise has no soft radius."""

    def votes(x: Tensor) -> Tensor:
        return torch.nn.functional.one_hot((x.square().sum(dim=1) > 4).long(), 2).float().detach()

    peak, most = best(lambda s: ball_p(s, 2), 0.2, 3.2)
    sigma = sc.optimize_sigma(votes, torch.zeros(1, 2), sigma0=0.8, draws=512).item()
    assert shown(ball_p(sigma, 2), sigma) >= 0.85 * most, (sigma, peak)
    assert sc.optimize_sigma(votes, torch.zeros(1, 2), sigma0=0.8, noise=sc.Laplace).shape == (1,)
    with pytest.raises(InputError, match="take bracket"):
        sc.optimize_sigma(votes, torch.zeros(1, 2), sigma0=0.8, method="ddrs")


def test_an_ensemble_is_a_classifier() -> None:
    members = [Ball(), Ball()]
    x = torch.zeros(2, 3)
    for method in SEARCHES:
        one = sc.optimize_sigma(members[0], x, sigma0=0.5, method=method, steps=5)
        many = sc.optimize_sigma(sc.SoftVoting(members), x, sigma0=0.5, method=method, steps=5)
        assert torch.equal(one, many), method


def test_a_module_is_evaluated_and_left_alone() -> None:
    net = nn.Sequential(nn.Dropout(0.9), Ball()).train()
    assert torch.equal(
        sc.optimize_sigma(net, torch.zeros(1, 3), sigma0=0.5), sc.optimize_sigma(Ball(), torch.zeros(1, 3), sigma0=0.5)
    )
    assert net.training


def test_win_rate_believes_margins_as_far_as_votes_allow() -> None:
    assert win_rate(64, 64, 4.0, 1.0) == pytest.approx(stats.norm.cdf(4.0))
    assert win_rate(64, 64, 0.1, 1.0) == pytest.approx(0.16 ** (1 / 64)), "64 of 64 votes are not half of all"
    assert win_rate(32, 64, 9.0, 1.0) == pytest.approx(stats.beta.isf(0.16, 33, 32))
    assert win_rate(0, 64, -1.0, 0.0) == 0.0
    assert win_rate(64, 64, 1.0, 0.0) == 1.0


def test_best_of_finds_every_hill_and_asks_for_few() -> None:
    for reach in (1, 2, 3, 4, 7, 16, 24):
        for top in range(-reach, reach + 1):
            asked: list[int] = []

            def look(ks: list[int], top: int = top, asked: list[int] = asked) -> list[tuple[float, float]]:
                asked.extend(ks)
                return [(-abs(k - 10 - top), 0.0) for k in ks]

            assert best_of(10, reach, 99, look) == 10 + top  # type: ignore[arg-type]
            assert asked[0] == 10
            assert len(set(asked)) == len(asked) <= 5 + 2 * math.ceil(math.log2(reach + 1))
    few: list[int] = []
    best_of(0, 16, 3, lambda ks: [few.append(k) or (0.0, 0.0) for k in ks])  # type: ignore[func-returns-value]
    assert len(few) == 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sigma_search("newton"), "no search for sigma 'newton': the names are bracket, ddrs, grid"),
        (lambda: Bracket(0), "steps of bracket must be at least 1, got 0"),
        (lambda: Grid(draws=0), "draws of grid must be at least 1, got 0"),
        (lambda: DDRS(lr=0.0), "lr of ddrs must be a positive finite number, got 0"),
        (lambda: Bracket(span=1.0), "span of bracket must be a number above 1, got 1.0"),
        (lambda: sigma_search("grid", lr=0.1), "the search grid has no lr; leave it out, or take another search"),
        (lambda: Grid(span=0.5), "span of grid must be a number above 1, got 0.5"),
        (lambda: Bracket(alpha=2.0), "alpha of bracket must lie strictly between 0 and 1, got 2.0"),
        (lambda: SigmaSearch.from_description({"name": "bracket", "steps": 3}), "describes no search for sigma"),
        (lambda: SigmaSearch.from_description([1]), "search for sigma is described by its name and options"),
        (lambda: sc.Smoothed(half_space, 2, sc.Ablation(0.8), search=Bracket()), "ablation noise cannot be chosen"),
    ],
)
def test_what_cannot_work_is_one_sentence(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_every_search_describes_itself() -> None:
    for search in (Bracket(5, 10, n=50, alpha=0.01, span=2.0), DDRS(3, 2, 0.5), Grid(7, 1), Grid(7, span=3.0)):
        assert SigmaSearch.from_description(search.describe()) == search
    assert Bracket(11, 64).evaluations == 704
    assert [Bracket().agrees(strength(3), strength(k)) for k in (2, 3, 4)] == [False, True, False]
    assert [DDRS().agrees(0.5, other) for other in (0.494, 0.496, 0.5, 0.504, 0.506)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert [DDRS().same(0.5, other) for other in (0.499999, 0.4999999, 0.5, 0.500001)] == [False, True, True, False]
    ends = [(Bracket(), 0.5), (Bracket(), 0.51), (Bracket(), 4.0), (DDRS(), 0.51), (DDRS(), 2.1), (Grid(), 0.51)]
    assert [search.can_end(found, 0.5) for search, found in ends] == [True, False, False, True, False, True]
    assert not Grid(50).can_end(0.51, 0.5)
    assert DDRS(100, 1).evaluations == 32 + 200


def test_scores_that_are_not_finite_are_said() -> None:
    with pytest.raises(InputError, match="not finite"):
        sc.optimize_sigma(lambda x: torch.full((len(x), 2), math.nan), torch.zeros(1, 2), sigma0=0.5)
