"""Draws per input of every procedure that decides a radius, exactly: python benchmarks/draws.py [--log LOG.tsv ...]

Expected draws at every distinct p_A of a built-in family or of public logs or runs at n = 100 000 (inverted from their
radii): no model, no sampling, no interpolation; then the mean over the inputs, and their median. The draws that choose
the class are counted: 100 in Cohen et al.'s loop (Fixed) and beside the published betting test, the adaptive rule
(`procedures.choice`, with all votes for other classes for one class: the slowest case) in Staged, in Sequential, and in
a second column for betting, there also at level alpha instead of the authors' 2 alpha for both sides. The chosen class
is taken to be the right one. "ahead": of Staged and of betting as published, in the mean and in the median.

Two bounds, without the choice. "bound": the draws that tell p from p0 (to certify) or from p1 (to give up) with errors
alpha and beta (Wald), and never more than n; between p0 and p1, where no test has these errors, that is a yardstick and
not a bound. "strict": what Wald's inequality says of every test with Sequential's own probabilities of certifying.
"""

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from betting import betting_stops
from power import right_of_two
from scipy import stats

from smoothcert.analysis import read
from smoothcert.noise import Gaussian
from smoothcert.procedures import Budgeted, Staged
from smoothcert.stats import lower_bound, upper_bound
from smoothcert.stats.failure_law import fixed_boundary
from smoothcert.stats.group_sequential import Boundaries, boundaries, operating_characteristics
from smoothcert.stats.look_plan import POWER

N, N0, ALPHA, BETA = 100_000, 100, 0.001, 0.001
STAGES = (100, 1_000, 10_000, 120_000)
BETTING_MOST = 131_100  # as in the authors' code

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Inputs:
    """The distinct p_A of some inputs, and how many inputs have each."""

    name: str
    ps: Array
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, name: str, ps: Array) -> "Inputs":
        """Each p once."""
        return cls(name, *np.unique(ps, return_counts=True))

    def mean(self, values: Array) -> float:
        """Over the inputs."""
        return float(np.average(values, weights=self.counts))

    def median(self, values: Array) -> float:
        """Over the inputs."""
        return float(np.median(np.repeat(values, self.counts)))

    def cell(self, values: Array) -> str:
        """Mean and median."""
        return f"{self.mean(values):.0f} / {self.median(values):.0f}"


def family() -> Array:
    """p_A of 2000 inputs: a tenth hopeless, the others spread as in the papers' curves."""
    quantiles = (np.arange(2000) + 0.5) / 2000
    margins = stats.norm.ppf(quantiles) * 1.2 + 1.4
    return np.asarray(stats.norm.cdf(margins).clip(0.05, 1 - 1e-7))


def from_log(path: Path, sigma: float) -> Array:
    """p_A of each input: the share of votes whose Clopper-Pearson bound gives the recorded radius."""
    known: dict[float, float] = {}
    for record in read(path).records:
        p_lower = stats.norm.cdf(record.radius / sigma)
        if record.radius in known or record.abstained:
            continue
        low, high = 0, N
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if lower_bound(middle, N, ALPHA) <= p_lower else (low, middle)
        # All votes agree: p_A is between that and 1.
        known[record.radius] = min((high + 0.5) / N, 1 - 1e-6)
    # An abstention has p_A of about one half, or less.
    return np.array([0.5 if record.abstained else known[record.radius] for record in read(path).records])


def staged_draws(procedure: Staged, p0: float, ps: Array) -> Array:
    """Exact expectation: the probability to reach each stage times its draws."""
    steps = len(procedure.stages)
    reached, draws = np.ones_like(ps), np.zeros_like(ps)
    for step, n in enumerate(procedure.stages, start=1):
        draws += reached * n
        certify = smallest(n, lambda k, n=n: lower_bound(k, n, ALPHA / steps) >= p0)  # type: ignore[misc]
        go_on = 0
        if step < steps:
            go_on = smallest(n, lambda k, n=n: upper_bound(k, n, BETA / (steps - 1)) >= p0)  # type: ignore[misc]
        reached = reached * (stats.binom.cdf(certify - 1, n, ps) - stats.binom.cdf(go_on - 1, n, ps)).clip(0)
    return draws


def smallest(n: int, holds: Callable[[int], bool]) -> int:
    """The smallest k in 0..n+1 for which a monotone condition holds."""
    low, high = -1, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle <= n and holds(middle) else (middle, high)
    return high


def divergence(p: Array | float, q: Array | float) -> Array:
    """Between two coins, in nats."""
    p, q = (np.clip(x, 1e-300, 1 - 1e-16) for x in (p, q))
    return np.asarray(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))


def bound(p0: float, ps: Array) -> Array:
    """The draws that tell p from p0 or from p1 with errors alpha and beta, and at most n."""
    most = fixed_boundary(N, p0, ALPHA)
    p1 = 1 - stats.beta.ppf(1 - POWER, most + 1, N - most)
    certify = divergence(1 - BETA, ALPHA) / np.maximum(divergence(ps, p0), 1e-12)
    give_up = divergence(1 - ALPHA, BETA) / np.maximum(divergence(ps, p1), 1e-12)
    return np.minimum(N, np.where(ps > (p0 + p1) / 2, certify, give_up))


def strict_bound(table: Boundaries, ps: Array, powers: Array) -> Array:
    """What no test with the same probabilities of certifying can beat: the largest of Wald's bounds over many q."""
    deviation, best = (table.p0 * (1 - table.p0) / N) ** 0.5, np.zeros_like(ps)
    for q in (table.p0 + z * deviation for z in np.linspace(0, 12, 49)):
        if q < 1 - 1e-9:
            apart = divergence(ps, q)
            told = divergence(powers, operating_characteristics(table, float(q))[0])
            best = np.maximum(best, np.where(apart > 1e-15, told / np.maximum(apart, 1e-15), 0))
    return best


def largest_radius(ps: Array, price: float) -> tuple[float, float]:
    """Mean radius of Budgeted over that of Fixed, and how many times fewer draws, votes simulated with a fixed seed."""
    rng, noise, procedure = np.random.default_rng(0), Gaussian(1.0), Budgeted(most=N, price=price, alpha=ALPHA)
    draws, radii, fixed = [], [], []
    for p in ps:
        n = procedure.choose_n(int(rng.binomial(procedure.pilot, p)), noise)
        draws.append(procedure.pilot + n)
        radii.append(noise.radius(lower_bound(int(rng.binomial(n, p)), n, ALPHA)))
        fixed.append(noise.radius(lower_bound(int(rng.binomial(N, p)), N, ALPHA)))
    return float(np.mean(radii) / np.mean(fixed)), (N + N0) / float(np.mean(draws))


def rows(r: float, everything: list[Inputs]) -> None:
    """One row per set of inputs, at r (in units of sigma)."""
    p0 = Gaussian(1.0).required_p(r)
    begin = time.process_time()
    (table,), most = boundaries((p0,), N, ALPHA, BETA), fixed_boundary(N, p0, ALPHA)
    seconds = time.process_time() - begin
    published, fair = (betting_stops(p0, alpha, BETTING_MOST) for alpha in (ALPHA, ALPHA / 2))
    staged_procedure = Staged(radius=r, stages=STAGES, alpha=ALPHA, beta=BETA)
    for inputs in everything:
        ps, cell = inputs.ps, inputs.cell
        _, on, choice = np.array([right_of_two(p, N0, p0) for p in ps]).T
        powers, own = np.array([operating_characteristics(table, p) for p in ps]).T
        staged = choice + on * staged_draws(staged_procedure, p0, ps)
        bets, fair_bets = (np.array([stops.expected(p)[1] for p in ps]) for stops in (published, fair))
        limit, strict = bound(p0, ps), strict_bound(table, ps, powers)
        fixed = inputs.mean(stats.binom.cdf(most, N, 1 - ps))
        total = choice + on * own
        others = {"Staged": staged, "betting": N0 + bets, "betting, same": choice + on * fair_bets}
        published_ones = (staged, N0 + bets)
        ahead = all(f(total) < f(other) for f in (inputs.mean, inputs.median) for other in published_ones)
        ratios = " | ".join(f"{inputs.mean(own) / inputs.mean(b):.3f}" for b in (limit, strict))
        cells = " | ".join([str(N + N0), *map(cell, others.values()), cell(total), cell(own), cell(limit), ratios])
        share = f"{100 * inputs.mean(on * powers):.3f} / {100 * fixed:.3f}"
        print(f"| {inputs.name} | {r:g} | {cells} | {share} | {'yes' if ahead else 'NO'} | {seconds:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, nargs="+", help="public TSV logs or runs at n = 100_000, not the family")
    parser.add_argument("--sigma", type=float, help="of the logs, where their names do not say it (..._sigma0.25...)")
    parser.add_argument("--radii", type=float, nargs="+", default=[1.0, 2.0, 3.0], help="in units of sigma")
    options = parser.parse_args()
    everything = [] if options.log else [Inputs.of("built-in family", family())]
    for path in options.log or ():
        named = re.search(r"sigma(\d+\.\d+)", path.name)
        if named is None and options.sigma is None:
            parser.error(f"{path.name} does not say its sigma; give --sigma")
        sigma = options.sigma if named is None else float(named[1])
        everything.append(Inputs.of(path.name.split(".tsv")[0], from_log(path, sigma)))
    print(f"mean / median draws; alpha = beta = {ALPHA}, n = {N}, stages {STAGES}\n")
    columns = (
        "inputs | r/sigma | Fixed | Staged | betting | betting, same choice and alpha | Sequential | without choice"
    )
    columns += " | bound | mean / bound | mean / strict | certified %, Fixed's | ahead | set-up, s"
    print(f"| {columns} |\n" + "|---" * (columns.count("|") + 1) + "|")
    for r in options.radii:
        rows(r, everything)
    print("\nNo radius given:\n\n| inputs | Budgeted, price | mean radius / Fixed | fewer draws |\n|---|---|---|---|")
    for inputs in everything:
        ps = np.repeat(inputs.ps, inputs.counts)
        for price in (0.005, 0.015, 0.03):
            share, fewer = largest_radius(ps[:: max(1, len(ps) // 500)], price)
            print(f"| {inputs.name} | {price} | {share:.3f} | {fewer:.1f} |")


if __name__ == "__main__":
    main()
