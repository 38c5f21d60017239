"""What every registered procedure must keep, with simulated votes at a known p_A and every noise.

A certificate is false when its radius exceeds the one that the true p_A buys. Over many conversations that happens no
more often than alpha; the test fails only on an event of probability below 1e-6 under the claim.
"""

import json
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from smoothcert.noise import Ablation, Gaussian, Laplace, Noise, Uniform
from smoothcert.procedures import (
    PROCEDURES,
    Ask,
    Budgeted,
    Certificate,
    Evaluate,
    Fixed,
    Procedure,
    Sequential,
    Staged,
    converse,
)
from smoothcert.procedures.replay import replay
from smoothcert.stats import Tally

ALPHA = 0.05


def reach(noise: Noise) -> float:
    """A radius that needs a p_A of about 0.62, or 2/3 for l0: some of the cases below have it and some do not."""
    return 1.0 if noise.norm == "l0" else noise.radius(0.62)


Make = Callable[[Noise], Procedure]
CASES: dict[str, Make] = {
    "fixed": lambda _: Fixed(n0=20, n=200, alpha=ALPHA),
    "runner-up": lambda _: Fixed(n0=20, n=200, alpha=ALPHA, runner_up=True),
    "staged": lambda noise: Staged(radius=reach(noise), stages=(50, 200, 500), alpha=ALPHA, beta=ALPHA, n0=20),
    "sequential": lambda noise: Sequential(radius=reach(noise), n=600, alpha=ALPHA, beta=ALPHA, n0=20),
    "several radii": lambda noise: Sequential(
        radius=[reach(noise), 2 * reach(noise)], n=600, alpha=ALPHA, beta=ALPHA, n0=20
    ),
    "budgeted": lambda _: Budgeted(most=1000, alpha=ALPHA, pilot=50),
    "evaluate": lambda _: Evaluate(n0=20, n=200, alpha=ALPHA).knowing(0),
}
NOISES: list[Noise] = [Gaussian(0.5), Uniform(0.5), Laplace(0.5), Ablation(keep=0.6, values=2)]
procedures = pytest.mark.parametrize("make", CASES.values(), ids=CASES)


def voter(p: tuple[float, ...], seed: int) -> Callable[[Ask], Tally]:
    rng = np.random.default_rng(seed)
    return lambda ask: Tally(tuple(int(v) for v in rng.multinomial(ask.n, p)))


def test_every_procedure_is_here() -> None:
    assert {type(make(Gaussian(0.5))) for make in CASES.values()} == set(PROCEDURES.values())


@procedures
@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
@pytest.mark.parametrize(
    "p", [(0.5, 0.5), (0.6, 0.4), (0.66, 0.34), (0.85, 0.1, 0.05), (0.45, 0.3, 0.25), (0.98, 0.02)]
)
def test_false_certificates_are_rare(make: Make, noise: Noise, p: tuple[float, ...]) -> None:
    count, wrong, procedure = 400, 0, make(noise)
    two_sided = [noise.radius(p[0], max(p[1:])), noise.radius(p[0])]
    for seed in range(count):
        certificate = converse(procedure.certify(noise), voter(p, seed))
        true_radius = max(two_sided) if certificate.label == 0 else 0.0
        wrong += certificate.radius > true_radius + 1e-12
    assert stats.binom.sf(wrong - 1, count, ALPHA) > 1e-6


@procedures
def test_certificates_are_complete_and_repeatable(make: Make) -> None:
    noise = Gaussian(0.5)
    procedure = make(noise)
    one, two = (converse(procedure.certify(noise), voter((0.9, 0.1), 7)) for _ in range(2))
    assert one == two
    assert one.radius > 0
    assert procedure.fixed_draws() <= procedure.most_draws()
    assert 0 < one.draws <= procedure.most_draws()
    assert one.procedure["name"] == procedure.name
    assert (one.alpha, one.norm) == (ALPHA, "l2")
    assert one.reason
    assert Certificate.from_json(one.to_json()) == one


@procedures
def test_choosing_and_bounding_draws_are_apart(make: Make) -> None:
    asked: list[Ask] = []
    procedure = make(Gaussian(0.5))
    converse(procedure.certify(Gaussian(0.5)), lambda ask: (asked.append(ask), voter((0.7, 0.3), 1)(ask))[1])
    chosen = [ask.purpose == "choose" for ask in asked]
    assert chosen == sorted(chosen, reverse=True), "once draws bound, none choose"
    assert chosen[0]
    assert not chosen[-1]


@procedures
@pytest.mark.parametrize("p", [(0.97, 0.03), (0.66, 0.34), (0.5, 0.5)])
def test_the_record_holds_the_whole_conversation(make: Make, p: tuple[float, ...]) -> None:
    asked: list[Ask] = []
    noise = Gaussian(0.5)
    procedure = make(noise)
    made = converse(procedure.certify(noise), lambda ask: (asked.append(ask), voter(p, 3)(ask))[1])
    assert [(purpose, tally.draws) for purpose, tally in made.answers] == [(ask.purpose, ask.n) for ask in asked]
    assert made.draws == sum(tally.draws for tally in made.tallies.values())
    recorded = Certificate.from_json(json.loads(json.dumps(made.to_json())))
    again = Procedure.from_description(json.loads(json.dumps(procedure.describe())))
    assert again == procedure
    assert replay(recorded, again.knowing(0), noise) == made, "the label is beside a certificate, in its record"
