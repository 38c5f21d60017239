"""What certification will say where the truth is p: radii of `Fixed` and the first stage of `Staged`, exactly.

Horvath et al. 2022: equation 6 and figures 2c, 3 and 15. The choice of the class is left out, as it is there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smoothcert.core.lazy import special, stats
from smoothcert.procedures import Staged
from smoothcert.stats import lower_bound, upper_bound

Array = NDArray[np.float64]


def radius_distribution(p: float, sigma: float, *, n: int, alpha: float) -> tuple[Array, Array]:
    """The radii above 0 that n draws can show, ascending, and the probability of each (equation 6).

    What is missing from 1 is the probability to abstain.
    """
    votes = np.arange(n // 2 + 1, n + 1)
    radii = _radii(votes, sigma, n, alpha)
    probability: Array = stats.binom.pmf(votes[radii > 0], n, p)
    return radii[radii > 0], probability


def expected_radius(p: Array, sigma: float, *, n: int, alpha: float) -> Array:
    """The mean radius that Cohen's certification reports where the truth is p (equation 6), for each of p (N,)."""
    p = np.asarray(p, dtype=np.float64)
    # Farther than 12 standard deviations and 60 votes from the mean nothing is left to count.
    reach = 12 * np.sqrt(n * p * (1 - p)) + 60
    low, high = np.maximum(n // 2 + 1, np.floor(n * p - reach)), np.minimum(n, np.ceil(n * p + reach))
    windows = [np.arange(int(first), int(last) + 1) for first, last in zip(low, high, strict=True)]
    votes = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *windows]))
    radii = _radii(votes, sigma, n, alpha)
    found = []
    for one, window in zip(p, windows, strict=True):
        near = radii[np.searchsorted(votes, window)]
        found.append(float(stats.binom.pmf(window, n, one) @ near))
    return np.array(found)


def _radii(votes: NDArray[np.int64], sigma: float, n: int, alpha: float) -> Array:
    """The radius of each number of votes; 0 where it certifies nothing."""
    lower = special.betaincinv(votes, n - votes + 1, alpha)
    radii: Array = sigma * special.ndtri(np.maximum(lower, 0.5))
    return radii


@dataclass(frozen=True)
class StageLaw:
    """How the first stage of `Staged` ends, by the true probability p of the class: each (len(p),)."""

    certify: Array
    abstain: Array
    go_on: Array


def first_stage(p: Array, procedure: Staged, required_p: float) -> StageLaw:
    """The law of the first stage's end for each true p, where the radius needs `required_p` (figure 15)."""
    n, steps = procedure.stages[0], len(procedure.stages)
    votes = np.arange(n + 1)
    certifies = np.array([lower_bound(k, n, procedure.alpha / steps) >= required_p for k in votes.tolist()])
    gives_up = np.zeros(n + 1, dtype=bool)
    if steps > 1:
        gives_up = np.array([upper_bound(k, n, procedure.beta / (steps - 1)) < required_p for k in votes.tolist()])
    law = stats.binom.pmf(votes, n, np.asarray(p, dtype=np.float64)[:, None])  # (len(p), n + 1)
    certify, abstain = law @ certifies, law @ (gives_up & ~certifies)
    if steps == 1:  # nothing follows: what is not certified is given up
        return StageLaw(certify, 1 - certify, np.zeros_like(certify))
    return StageLaw(certify, abstain, law @ ~(certifies | gives_up))
