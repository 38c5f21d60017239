"""The published betting test, exactly (Voracek, NeurIPS 2024, "Treatment of Statistical Estimation Problems in
Randomized Smoothing for Adversarial Robustness"); written from the paper, for comparison only.

After every draw the wealth of a bettor against "p = p0", who bets by the estimator of Krichevsky and Trofimov, is
compared with 1 / (2 alpha), as the authors' code has it: radius certified if it is reached with a share of votes
above p0, given up if with one below. That is a level of 2 alpha for both sides together (Ville's inequality), and so
in its favour beside tests that keep alpha on one side.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stops:
    """Where the test stops: draws, failures, log-probability under p0, and whether it certifies there."""

    draws: Array
    failures: Array
    log_mass: Array
    certifies: npt.NDArray[np.bool_]
    p0: float

    def expected(self, p: float) -> tuple[float, float]:
        """Exact (probability of certifying, expected draws) under p: every path is reweighted by its likelihood."""
        up, down = math.log(p / self.p0), math.log((1 - p) / (1 - self.p0))
        mass = np.exp(self.log_mass + (self.draws - self.failures) * up + self.failures * down)
        return float(mass[self.certifies].sum()), float(mass @ self.draws)


def log_wealth(draws: int, failures: int, p0: float) -> float:
    """Of the bettor, against p0: the likelihood under the Beta(1/2, 1/2) mixture over that under p0."""
    good, bad = draws - failures, failures
    mixture = math.lgamma(good + 0.5) + math.lgamma(bad + 0.5) - math.lgamma(draws + 1) - math.log(math.pi)
    return mixture - good * math.log(p0) - bad * math.log1p(-p0)


def betting_stops(p0: float, alpha: float, most: int) -> Stops:
    """One walk under p0, draw by draw, to `most` draws; who is undecided then is given up."""
    enough = math.log(1 / (2 * alpha))
    law, low = np.zeros(most + 2), 0  # mass of the undecided by failures; all of it in [low, high)
    law[0], high = 1.0, 1
    certify, give_up = -1, 1  # the most failures that certify, the fewest that give up
    found: list[tuple[int, int, float, bool]] = []
    for n in range(1, most + 1):
        law[low + 1 : high + 1] = law[low + 1 : high + 1] * p0 + law[low:high] * (1 - p0)
        law[low] *= p0
        high += 1
        while certify + 1 <= n * (1 - p0) and log_wealth(n, certify + 1, p0) > enough:
            certify += 1
        while give_up <= n and (give_up < n * (1 - p0) or log_wealth(n, give_up, p0) <= enough):
            give_up += 1
        while low <= certify and low < high:
            found.append((n, low, law[low], True))
            law[low], low = 0.0, low + 1
        while high > give_up and low < high:
            high -= 1
            found.append((n, high, law[high], False))
            law[high] = 0.0
        if low >= high:
            break
    found += [(most, failures, law[failures], False) for failures in range(low, high)]
    kept = [stop for stop in found if stop[2] > 0]
    draws, failures, mass, certifies = (np.array(column) for column in zip(*kept, strict=True))
    return Stops(draws, failures, np.log(mass), certifies, p0)
