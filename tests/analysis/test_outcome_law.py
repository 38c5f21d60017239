"""What certification will say, against enumeration and against the procedures themselves."""

import numpy as np
import pytest
from scipy import special, stats

from smoothcert.analysis.outcome_law import expected_radius, first_stage, radius_distribution
from smoothcert.noise import Gaussian
from smoothcert.procedures import Ask, Certificate, Fixed, Staged, converse
from smoothcert.stats import Tally, lower_bound


@pytest.mark.parametrize("p", [0.4, 0.7, 0.95, 1.0])
def test_radii_are_those_of_equation_6(p: float) -> None:
    n, alpha, sigma = 100, 0.001, 0.25
    radii, probability = radius_distribution(p, sigma, n=n, alpha=alpha)
    wanted = {k: sigma * float(special.ndtri(low)) for k in range(n + 1) if (low := lower_bound(k, n, alpha)) > 0.5}
    assert radii == pytest.approx(list(wanted.values()), rel=1e-9)
    assert probability == pytest.approx([float(stats.binom.pmf(k, n, p)) for k in wanted], abs=1e-15)
    exact = sum(float(stats.binom.pmf(k, n, p)) * radius for k, radius in wanted.items())
    assert expected_radius(np.array([p]), sigma, n=n, alpha=alpha)[0] == pytest.approx(exact, rel=1e-9, abs=1e-15)


def test_many_draws() -> None:
    most = expected_radius(np.array([1.0]), 1.0, n=100_000, alpha=0.001)[0]
    assert most == pytest.approx(3.811, abs=1e-3), "all votes equal, as in Cohen et al. 2019"
    for p in (0.6, 0.99, 0.99999):  # what is left out far from the mean does not count
        radii, probability = radius_distribution(p, 0.5, n=20_000, alpha=0.001)
        found = expected_radius(np.array([p]), 0.5, n=20_000, alpha=0.001)[0]
        assert found == pytest.approx(float(probability @ radii), rel=1e-12)


def test_fixed_reports_such_radii() -> None:
    """2000 certificates of votes drawn at p = 0.9: their mean radius is the expected one, within five of its errors."""
    rng, noise, procedure = np.random.default_rng(0), Gaussian(sigma=0.25), Fixed(n0=100, n=200)
    radii = []
    for _ in range(2000):
        votes = int(rng.binomial(200, 0.9))

        def draw(ask: Ask, votes: int = votes) -> Tally:
            return Tally((0, ask.n)) if ask.purpose == "choose" else Tally((ask.n - votes, votes))

        radii.append(converse(procedure.certify(noise), draw).radius)
    wanted = expected_radius(np.array([0.9]), 0.25, n=200, alpha=0.001)[0]
    assert abs(np.mean(radii) - wanted) < 5 * np.std(radii) / np.sqrt(2000)


def test_the_first_stage_ends_as_the_law_says() -> None:
    """For every number of votes the procedure itself is asked how its first stage ends."""
    noise, procedure = Gaussian(sigma=0.25), Staged(radius=0.25, stages=(100, 10_000), alpha=0.001, beta=0.0001)
    ends = {}
    for votes in range(101):
        conversation, stages = procedure.certify(noise), 0
        ask = next(conversation)
        try:
            while stages < 2:
                stages += ask.purpose.startswith("stage")
                tally = (0, ask.n) if ask.purpose == "choose" else (ask.n - min(votes, ask.n), min(votes, ask.n))
                ask = conversation.send(Tally(tally))
        except StopIteration as end:
            found: Certificate = end.value
            ends[votes] = "go on" if stages > 1 else "abstain" if found.abstained else "certify"
    p = np.array([0.5, 0.7, 0.85, 0.97, 1.0])
    law = first_stage(p, procedure, noise.required_p(0.25))
    for kind, found_law in (("certify", law.certify), ("abstain", law.abstain), ("go on", law.go_on)):
        wanted = [sum(float(stats.binom.pmf(k, 100, one)) for k in ends if ends[k] == kind) for one in p]
        assert found_law == pytest.approx(wanted, abs=1e-12)
    assert law.certify + law.abstain + law.go_on == pytest.approx(np.ones(5))
    only = first_stage(p, Staged(radius=0.25, stages=(100,)), noise.required_p(0.25))
    assert only.certify + only.abstain == pytest.approx(np.ones(5))
