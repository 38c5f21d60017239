"""Draws per input of Fixed, Staged and Sequential, exactly: python benchmarks/draws.py [--log LOG.tsv --sigma 0.25]

Expected draws (without the n0 that choose the class, the same for all) to decide a radius r, over a distribution of
p_A: a built-in family, or the p_A of a public log or run at n = 100_000, inverted from its radii. No model, no
sampling: the operating characteristics are computed. The bound is what no test can beat with the same errors (Wald):
the draws that tell p from p0 (to certify) or from p1 (to give up), and never more than n.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import stats

from smoothcert.analysis import read
from smoothcert.noise import Gaussian
from smoothcert.procedures import Budgeted, Staged
from smoothcert.stats import lower_bound, upper_bound
from smoothcert.stats.group_sequential import POWER, Boundaries, boundaries, fixed_boundary, operating_characteristics

N, ALPHA, BETA = 100_000, 0.001, 0.001
STAGES = (100, 1_000, 10_000, 120_000)


def family() -> np.ndarray:
    """Radii of 2000 inputs in units of sigma: a tenth hopeless, the others spread as in the papers' curves."""
    quantiles = (np.arange(2000) + 0.5) / 2000
    margins = stats.norm.ppf(quantiles) * 1.2 + 1.4
    return stats.norm.cdf(margins).clip(0.05, 1 - 1e-7)


def from_log(path: Path, sigma: float) -> np.ndarray:
    """p_A of each input: the share of votes whose Clopper-Pearson bound gives the recorded radius."""
    inverted = []
    for record in read(path).records:
        p_lower = stats.norm.cdf(record.radius / sigma)
        low, high = 0, N
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if lower_bound(middle, N, ALPHA) <= p_lower else (low, middle)
        # All votes agree: p_A is between that and 1. An abstention has p_A of about one half, or less.
        inverted.append(0.5 if record.abstained else min((high + 0.5) / N, 1 - 1e-6))
    return np.array(inverted)


def staged_draws(procedure: Staged, p0: float, ps: np.ndarray) -> np.ndarray:
    """Exact expectation: the probability to reach each stage times its draws."""
    steps = len(procedure.stages)
    reached, draws = np.ones_like(ps), np.zeros_like(ps)
    for step, n in enumerate(procedure.stages, start=1):
        draws += reached * n
        certify = smallest(n, lambda k, n=n: lower_bound(k, n, ALPHA / steps) >= p0)
        go_on = 0 if step == steps else smallest(n, lambda k, n=n: upper_bound(k, n, BETA / (steps - 1)) >= p0)
        reached = reached * (stats.binom.cdf(certify - 1, n, ps) - stats.binom.cdf(go_on - 1, n, ps)).clip(0)
    return draws


def smallest(n: int, holds: object) -> int:
    """The smallest k in 0..n+1 for which a monotone condition holds."""
    low, high = -1, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)  # type: ignore[operator]
    return high


def sequential_draws(table: Boundaries, ps: np.ndarray) -> np.ndarray:
    """Exact at up to 300 quantiles of p, interpolated between."""
    grid = np.unique(np.quantile(ps, np.linspace(0, 1, 300)))
    return np.interp(ps, grid, [operating_characteristics(table, float(p))[1] for p in grid])


def bound(p0: float, ps: np.ndarray) -> np.ndarray:
    """Wald's lower bound on the expected draws of any test with these errors that may also use n draws and stop."""
    most = fixed_boundary(N, p0, ALPHA)
    p1 = 1 - stats.beta.ppf(1 - POWER, most + 1, N - most)

    def divergence(p: np.ndarray | float, q: np.ndarray | float) -> np.ndarray:
        return np.asarray(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

    certify = divergence(1 - BETA, ALPHA) / np.maximum(divergence(ps, p0), 1e-12)
    give_up = divergence(1 - ALPHA, BETA) / np.maximum(divergence(ps, p1), 1e-12)
    return np.minimum(N, np.where(ps > (p0 + p1) / 2, certify, give_up))


def largest_radius(ps: np.ndarray, price: float) -> tuple[float, float]:
    """Mean radius of Budgeted over that of Fixed, and how many times fewer draws, votes simulated with a fixed seed."""
    rng, noise, procedure = np.random.default_rng(0), Gaussian(1.0), Budgeted(most=N, price=price, alpha=ALPHA)
    draws, radii, fixed = [], [], []
    for p in ps:
        n = procedure.choose_n(int(rng.binomial(procedure.pilot, p)), noise)
        draws.append(procedure.pilot + n)
        radii.append(noise.radius(lower_bound(int(rng.binomial(n, p)), n, ALPHA)))
        fixed.append(noise.radius(lower_bound(int(rng.binomial(N, p)), N, ALPHA)))
    return float(np.mean(radii) / np.mean(fixed)), (N + 100) / float(np.mean(draws))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, help="a public TSV log or a run at n = 100_000, instead of the family")
    parser.add_argument("--sigma", type=float, default=0.25, help="of the log")
    parser.add_argument("--radii", type=float, nargs="+", default=[1.0, 2.0, 3.0], help="in units of sigma")
    options = parser.parse_args()
    ps = family() if options.log is None else from_log(options.log, options.sigma)
    print(f"{len(ps)} inputs: {options.log or 'built-in family'}; alpha = beta = {ALPHA}, n = {N}, stages {STAGES}\n")
    print("| r/sigma | Fixed | Staged | Sequential | bound | Staged/Sequential | Sequential/bound | set-up, s |")
    print("|---" * 8 + "|")
    for r in options.radii:
        p0 = Gaussian(1.0).required_p(r)
        begin = time.perf_counter()
        (table,) = boundaries((p0,), N, ALPHA, BETA)
        seconds = time.perf_counter() - begin
        staged = staged_draws(Staged(radius=r, stages=STAGES, alpha=ALPHA, beta=BETA), p0, ps).mean()
        sequential, limit = sequential_draws(table, ps).mean(), bound(p0, ps).mean()
        ratios = f"{staged / sequential:.2f} | {sequential / limit:.2f} | {seconds:.2f}"
        print(f"| {r:g} | {N} | {staged:.0f} | {sequential:.0f} | {limit:.0f} | {ratios} |")
    print("\nNo radius given:\n\n| Budgeted, price | mean radius / Fixed | fewer draws |\n|---|---|---|")
    for price in (0.005, 0.015, 0.03):
        share, fewer = largest_radius(ps[:: max(1, len(ps) // 500)], price)
        print(f"| {price} | {share:.3f} | {fewer:.1f} |")


if __name__ == "__main__":
    main()
