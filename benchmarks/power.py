"""How much power Sequential loses against Fixed, exactly: python benchmarks/power.py [--settings 100]

The class first: what choosing it with fewer draws where they agree loses against n0 draws (`procedures.choice`).
Then the test: random settings (p0, n, alpha, beta), a fixed seed; in each the largest loss over 81 p from p0 to eight
standard deviations above it. The level is exact whatever is found here; what is found is what the docstrings say of
power.
"""

import argparse

import numpy as np
from scipy import stats

from smoothcert.procedures.choice import FIRST, out_of_reach, settled
from smoothcert.stats import Tally
from smoothcert.stats.failure_law import fixed_boundary
from smoothcert.stats.group_sequential import boundaries, operating_characteristics


def largest_loss(p0: float, n: int, alpha: float, beta: float) -> float:
    """Power of the fixed test with n draws less that of the sequential one, where it is largest."""
    (table,), most = boundaries((p0,), n, alpha, beta), fixed_boundary(n, p0, alpha)
    ps = [p for z in np.linspace(0, 8, 81) if (p := p0 + z * (p0 * (1 - p0) / n) ** 0.5) < 1]
    return max(float(stats.binom.cdf(most, n, 1 - p)) - operating_characteristics(table, p)[0] for p in ps)


def settings(count: int, betas: tuple[float, ...], seed: int) -> list[tuple[float, int, float, float]]:
    """Settings in which `Fixed` can certify at all: r/sigma up to 3.3, n from 300 to 100 000, alpha from .05 down."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < count:
        p0, n = float(stats.norm.cdf(rng.uniform(0.1, 3.3))), round(10 ** rng.uniform(2.5, 5))
        alpha, beta = float(rng.choice([0.05, 0.01, 0.001, 1e-4, 1e-6])), float(rng.choice(betas))
        if fixed_boundary(n, p0, alpha) >= 0:
            found.append((p0, n, alpha, beta))
    return found


def right_of_two(p: float, n0: int, p0: float, *, looks: bool = True) -> tuple[float, float, float]:
    """Exact (probability of going on with the class that has p and not 1 - p, of going on at all, expected draws)."""
    law, draws = np.ones(1), 0  # of the votes for the class, of those that are undecided
    right = on = expected = 0.0
    while draws < n0:
        more = min(draws or FIRST, n0 - draws) if looks else n0
        law, draws = np.convolve(law, stats.binom.pmf(np.arange(more + 1), more, p)), draws + more
        tallies = [Tally((votes, draws - votes)) for votes in range(draws + 1)]
        stops = np.array([draws == n0 or settled(tally, n0, p0) for tally in tallies])
        goes_on = stops & np.array([not (looks and out_of_reach(tally, p0)) for tally in tallies])
        ahead = np.array([np.sign(tally.votes[0] - tally.votes[1]) / 2 + 0.5 for tally in tallies])
        right += float((law * ahead * goes_on).sum())
        on += float(law[goes_on].sum())
        expected += float(law[stops].sum()) * draws
        law = law * ~stops
    return right, on, expected


def right_of_many(p: float, classes: int, n0: int, p0: float, count: int, seed: int) -> tuple[float, float, float]:
    """(how often n0 draws choose the class with p, how often the rule does, mean draws), the others equally likely."""
    rng, found = np.random.default_rng(seed), np.zeros(3)
    shares = [p] + [(1 - p) / (classes - 1)] * (classes - 1)
    sizes = []
    while sum(sizes) < n0:
        sizes.append(min(sum(sizes) or FIRST, n0 - sum(sizes)))
    for _ in range(count):
        steps = [Tally(tuple(map(int, rng.multinomial(size, shares)))) for size in sizes]
        seen = steps[0]
        for step in steps[1:]:
            if settled(seen, n0, p0):
                break
            seen += step
        found += (sum(steps, Tally.empty(classes)).top == 0, seen.top == 0 and not out_of_reach(seen, p0), seen.draws)
    right, chosen, draws = found / count
    return float(right), float(chosen), float(draws)


def choice() -> None:
    """What choosing with fewer draws loses, for a radius that p has (p0 = p: the most that can be lost)."""
    print("| n0 | p_A | two classes: wrong with n0 draws | lost | draws | ten classes: wrong with n0 | lost | draws |")
    print("|---" * 8 + "|")
    for n0 in (20, 100, 1_000):
        for p in (0.505, 0.52, 0.55, 0.6, 0.65, 0.7, 0.84, 0.98, 0.9987):
            (full, _, _), (chosen, _, draws) = right_of_two(p, n0, p, looks=False), right_of_two(p, n0, p)
            two = f"{1 - full:.1e} | {full - chosen:.1e} | {draws:.1f}"
            wide, found, many = right_of_many(p, 10, n0, p, 5_000, seed=0)
            print(f"| {n0} | {p} | {two} | {1 - wide:.4f} | {wide - found:.4f} | {many:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    choice()
    print()
    for name, betas in (("beta <= .001", (0.001, 1e-4, 1e-5)), ("beta = .01", (0.01,))):
        chosen = settings(options.settings, betas, options.seed)
        losses = [largest_loss(*setting) for setting in chosen]
        worst = int(np.argmax(losses))
        beyond = sum(loss > 8e-4 for loss in losses)
        p0, n, alpha, beta = chosen[worst]
        print(f"{name}: {beyond} of {len(chosen)} settings lose more than 8e-4; the median loss is", end=" ")
        print(f"{np.median(losses):.1e}, the largest {losses[worst]:.2e}", end=" ")
        print(f"(p0 = {p0:.6f}, n = {n}, alpha = {alpha:g}, beta = {beta:g})", flush=True)
        for loss, setting in sorted(zip(losses, chosen, strict=True), reverse=True)[:5]:
            print(f"    {loss:.2e} {setting}")


if __name__ == "__main__":
    main()
