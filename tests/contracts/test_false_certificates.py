"""False certificates of procedures that stop by looking, on oracles whose truth is known.

Votes are drawn from the known probabilities of an oracle, so that many thousands of conversations take seconds:

- a half space, whose p_A = Phi(margin / sigma): asked about a radius just above the margin every certificate is false,
  and p_A is the worst that the level must hold for;
- a ball around the input, whose smoothed version ends where the noncentral chi-square law reaches one half;
- a constant classifier, whose certificates are true at any radius, and must not be missed;
- ten classes, where the class is often chosen wrongly.

The test fails only on an event of probability below 1e-6 under the claim. SMOOTHCERT_STRESS: certificates per case
(100000 takes minutes).
"""

import os
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch import Tensor

from smoothcert.engine import Smoothed
from smoothcert.noise import Gaussian
from smoothcert.procedures import Ask, Certificate, Procedure, Sequential, Staged, converse
from smoothcert.stats import Tally

COUNT = int(os.environ.get("SMOOTHCERT_STRESS", "200"))
UNLIKELY = 1e-6
SIGMA, MARGIN, ALPHA = 0.5, 0.4, 0.02
BALL, DIMENSIONS = 3.0, 20

Make = Callable[[float], Procedure]
PROCEDURES: dict[str, Make] = {
    "sequential": lambda r: Sequential(radius=r, n=400, alpha=ALPHA, beta=ALPHA, n0=100),
    "several radii": lambda r: Sequential(radius=[r / 2, r, 1.2 * r], n=400, alpha=ALPHA, beta=ALPHA, n0=100),
    "staged": lambda r: Staged(radius=r, stages=(50, 200, 500), alpha=ALPHA, beta=ALPHA, n0=100),
}
every_procedure = pytest.mark.parametrize("make", PROCEDURES.values(), ids=PROCEDURES)


def certificates(procedure: Procedure, p: tuple[float, ...], count: int, seed: int = 0) -> list[Certificate]:
    rng = np.random.default_rng(seed)

    def draw(ask: Ask) -> Tally:
        return Tally(tuple(rng.multinomial(ask.n, p).tolist()))

    return [converse(procedure.certify(Gaussian(SIGMA)), draw) for _ in range(count)]


@cache
def ball_truth() -> tuple[float, float]:
    """p_A at the centre of the ball, and the distance at which the smoothed classifier changes its answer."""
    inside = float(stats.chi2.cdf((BALL / SIGMA) ** 2, DIMENSIONS))
    edge = optimize.brentq(
        lambda d: stats.ncx2.cdf((BALL / SIGMA) ** 2, DIMENSIONS, (d / SIGMA) ** 2) - 0.5, 0.01, BALL
    )
    return inside, float(edge)


def within_alpha(wrong: int, count: int) -> bool:
    return bool(stats.binom.sf(wrong - 1, count, ALPHA) > UNLIKELY)


@every_procedure
def test_a_half_space_is_certified_beyond_its_margin_no_more_often_than_alpha(make: Make) -> None:
    p = float(stats.norm.cdf(MARGIN / SIGMA))
    made = certificates(make(MARGIN * (1 + 1e-9)), (p, 1 - p), COUNT)
    assert within_alpha(sum(c.radius > MARGIN for c in made), COUNT)
    if COUNT >= 10_000:
        assert sum(c.radius > MARGIN for c in made) > COUNT * ALPHA / 10, "and the level is used"


@every_procedure
def test_a_ball_is_certified_within_itself(make: Make) -> None:
    """What p_A buys lies within the edge: asked about a little more, certificates are as rare as alpha, and true."""
    p, edge = ball_truth()
    bought = Gaussian(SIGMA).radius(p)
    made = certificates(make(bought * (1 + 1e-9)), (p, 1 - p), COUNT, seed=1)
    assert within_alpha(sum(c.radius > bought for c in made), COUNT)
    assert all(c.radius < edge for c in made)


@every_procedure
def test_a_constant_classifier_is_always_certified(make: Make) -> None:
    made = certificates(make(MARGIN * (1 + 1e-9)), (0.0, 1.0, 0.0), COUNT // 4)
    assert all(c.label == 1 and c.radius >= MARGIN for c in made)


@every_procedure
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.55])
def test_ten_classes_with_a_wrong_choice(make: Make, p: float) -> None:
    """No class has what the radius needs: whichever is chosen, a certificate is false."""
    made = certificates(make(MARGIN * (1 + 1e-9)), (p, *[(1 - p) / 9] * 9), COUNT // 4, seed=3)
    assert within_alpha(
        sum(c.radius > 0 for c in made if c.label != 0 or c.radius > SIGMA * stats.norm.ppf(p)), len(made)
    )


def half_space(x: Tensor) -> Tensor:
    return torch.stack([x[:, 0], -x[:, 0]], dim=1)


@every_procedure
def test_a_half_space_through_the_engine(make: Make) -> None:
    """The same with noise, a model and votes: the plane at distance MARGIN from each."""
    count = min(COUNT // 4, 2_000)
    x = torch.rand(count, 3, generator=torch.Generator().manual_seed(0))
    x[:, 0] = MARGIN
    made = Smoothed(half_space, 2, Gaussian(SIGMA), seed=5, workers=1).certify(x, make(MARGIN * (1 + 1e-6)))
    assert within_alpha(sum(c.radius > MARGIN for c in made), count)
    assert len({c.draws for c in made}) > 1
