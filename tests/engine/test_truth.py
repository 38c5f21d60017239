"""Certificates against known truth: classifiers whose smoothed version, and its distance to the boundary, are known.

A half space has p_A = Phi(margin / sigma), and its smoothed version answers by the same plane; so a certified radius
above the margin is a false certificate. Counted over thousands, false ones must be no more than alpha allows: the test
fails only on an event of probability below 1e-6 under the claim.
"""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import Fixed
from smoothcert.stats import Bound, ClopperPearson, EmpiricalBernstein, Hoeffding

UNLIKELY = 1e-6


def half_space(direction: Tensor) -> object:
    """Class 0 where <direction, x> > 0."""

    def scores(x: Tensor) -> Tensor:
        side = x.flatten(1) @ direction
        return torch.stack([side, -side], dim=1)

    return scores


def oracle(noise: Noise, dim: int, margin: float, seed: int) -> tuple[Smoothed, Tensor]:
    """A half space and a point at distance `margin` from it in the noise's norm, on the side of class 0.

    For l1 the nearest way to the plane is along its largest coordinate, and the worst plane is an axis.
    """
    generator = torch.Generator().manual_seed(seed)
    if noise.norm == "l2":
        direction = torch.randn(dim, generator=generator, dtype=torch.float64)
        direction /= direction.norm()
    else:
        direction = torch.zeros(dim, dtype=torch.float64)
        direction[seed % dim] = 1.0
    along = torch.rand(dim, generator=generator, dtype=torch.float64)
    x = along - (along @ direction) * direction + margin * direction
    return Smoothed(half_space(direction.float()), 2, noise, seed=seed, workers=1), x.float()  # type: ignore[arg-type]


def false_certificates(noise: Noise, dim: int, margins: list[float], procedure: Fixed, count: int) -> int:
    wrong = 0
    for seed in range(count):
        margin = margins[seed % len(margins)]
        smoothed, x = oracle(noise, dim, margin, seed)
        certificate = smoothed.certify(x, procedure)[0]
        # float32 rounds the point and the plane; a millionth of the margin is far above that.
        wrong += certificate.radius > margin * (1 + 1e-6) or certificate.label == 1
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "count"), [(2, 1500), (784, 1000), (3072, 500)])
@pytest.mark.parametrize("alpha", [0.1, 0.02])
def test_l2_certificates_are_false_no_more_often_than_alpha(dim: int, count: int, alpha: float) -> None:
    noise = Gaussian(sigma=0.5)
    wrong = false_certificates(noise, dim, [0.1, 0.25, 0.5, 1.0], Fixed(n0=20, n=100, alpha=alpha), count)
    assert stats.binom.sf(wrong - 1, count, alpha) > UNLIKELY


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Uniform(half_width=0.8), Laplace(scale=0.5)], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 0.02])
def test_l1_certificates_are_false_no_more_often_than_alpha(noise: Noise, alpha: float) -> None:
    wrong = false_certificates(noise, 784, [0.05, 0.2, 0.4], Fixed(n0=20, n=100, alpha=alpha), 1000)
    assert stats.binom.sf(wrong - 1, 1000, alpha) > UNLIKELY


@pytest.mark.slow
def test_the_tail_of_the_claim_is_used() -> None:
    """With alpha = 0.1 some certificates must be false: if none were, the bound would be far from exact."""
    wrong = false_certificates(Gaussian(sigma=0.5), 2, [0.5], Fixed(n0=20, n=100, alpha=0.1), 1500)
    assert wrong > 75


class SoftHalfSpace:
    """Two-class scores whose softmax is 0/1 (huge logits): then the mean score is p_A and the soft truth is known."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.stack([x[:, 0], -x[:, 0]], dim=1).sign() * 1e4


@pytest.mark.parametrize("bound", [Hoeffding(), EmpiricalBernstein()], ids=lambda b: b.name)
@pytest.mark.parametrize("runner_up", [False, True])
def test_soft_certificates_are_true(bound: Bound, runner_up: bool) -> None:
    wrong = 0
    for seed in range(300):
        smoothed = Smoothed(SoftHalfSpace(), 2, Gaussian(sigma=0.5), seed=seed)
        procedure = Fixed(n0=20, n=200, alpha=0.05, bound=bound, runner_up=runner_up)
        wrong += smoothed.certify(torch.tensor([0.3, 0.1]), procedure)[0].radius > 0.3
    assert stats.binom.sf(wrong - 1, 300, 0.05) > UNLIKELY


def test_three_classes_below_one_half() -> None:
    """Three stripes with p = .45/.3/.25: only the runner-up bound certifies, and never beyond the true radius.

    Along the first axis the boundary of the smoothed classifier is where two stripes get equally likely; it is found
    by bisection on the exact probabilities.
    """
    cuts = stats.norm.ppf([0.3, 0.75])  # class 1 | class 0 | class 2, sigma = 1, x = 0

    def stripes(x: Tensor) -> Tensor:
        which = torch.bucketize(x[:, 0].contiguous(), torch.tensor(cuts, dtype=x.dtype))
        return torch.nn.functional.one_hot(torch.tensor([1, 0, 2])[which], 3).float()

    def ahead(shift: float) -> float:
        below, above = stats.norm.cdf(cuts[0] - shift), stats.norm.sf(cuts[1] - shift)
        return float(1 - below - above - max(below, above))

    truth = min(abs(bisect(ahead, 0.0, sign * 5.0)) for sign in (-1, 1))
    smoothed = Smoothed(stripes, 3, Gaussian(sigma=1.0))
    x = torch.zeros(4, 2) + torch.tensor([[0.0, 0.1], [0.0, 0.2], [0.0, 0.3], [0.0, 0.4]])
    assert all(c.abstained for c in smoothed.certify(x, Fixed(n=20_000)))
    for certificate in smoothed.certify(x, Fixed(n=20_000, runner_up=True)):
        assert certificate.label == 0
        assert 0.1 < certificate.radius <= truth


def bisect(f: object, low: float, high: float) -> float:
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)  # type: ignore[operator]
    return low


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 784, 3072])
@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
def test_a_hundred_thousand_draws_reach_93_percent_of_the_truth(dim: int, margin: float) -> None:
    sigma = 0.25
    smoothed, x = oracle(Gaussian(sigma=sigma), dim, margin * sigma, seed=3)
    certificate = smoothed.certify(x, Fixed(n=100_000))[0]
    assert 0.93 * margin * sigma <= certificate.radius <= margin * sigma


@pytest.mark.parametrize(("noise", "margin"), [(Uniform(0.5), 0.3), (Laplace(0.3), 0.3)], ids=["uniform", "laplace"])
def test_l1_radii_reach_93_percent_of_the_truth(noise: Noise, margin: float) -> None:
    smoothed, x = oracle(noise, 10, margin, seed=3)
    certificate = smoothed.certify(x, Fixed(n=100_000))[0]
    assert 0.93 * margin <= certificate.radius <= margin


def test_a_classifier_that_ignores_its_input_gets_the_largest_radius() -> None:
    smoothed = Smoothed(lambda x: torch.tensor([[0.0, 1.0, 0.0]]).expand(len(x), 3), 3, Gaussian(0.25))
    certificate = smoothed.certify(torch.rand(1, 3, 4, 4), Fixed(n=10_000))[0]
    assert certificate.label == 1
    assert certificate.radius == pytest.approx(0.25 * stats.norm.ppf(0.001 ** (1 / 10_000)), rel=1e-10)


def test_a_sphere() -> None:
    """Inside/outside a ball around the point: p_A is a chi-square probability, and the radius stays inside the ball."""
    dim, sigma, ball = 20, 0.5, 3.0
    smoothed = Smoothed(
        lambda x: torch.stack([ball - x.norm(dim=1), x.norm(dim=1) - ball], dim=1), 2, Gaussian(sigma), workers=1
    )
    certificate = smoothed.certify(torch.zeros(dim), Fixed(n=100_000))[0]
    p = float(stats.chi2.cdf((ball / sigma) ** 2, dim))
    assert certificate.p_lower < p < certificate.p_lower + 0.005
    assert 0 < certificate.radius < ball
    assert isinstance(Fixed().bound, ClopperPearson)
    assert math.isfinite(certificate.radius)
