"""What exact sampling on a grid costs, and whether it is exact: python benchmarks/noise.py [--chi-square 100000000]

Three tables: time of a block of 128 noisy inputs on the grid over that in float32; its share of certification with a
ResNet-20; and the draws against the exact law, tails included. Times are processor time of one thread, the median of
repeats taken in turn, so that a busy machine disturbs them little.
"""

import argparse
import time

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from smoothcert.core.randomness import BLOCK, generator
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian, Noise, Uniform

GRID = 1 / 255
SHAPES = [(1, 28, 28), (3, 32, 32)]
SIGMAS = (0.25, 0.5, 1.0)


def image(shape: tuple[int, ...]) -> Tensor:
    pixels = np.random.default_rng(0).integers(0, 256, shape)
    return torch.from_numpy(pixels.astype(np.float32) / np.float32(255)).expand(BLOCK, *shape)


def seconds(noise: Noise, x: Tensor, block: int) -> float:
    stream = generator(0, "x", "bound", block)
    start = time.thread_time()
    noise.draw(x, stream)
    return time.thread_time() - start


@torch.inference_mode()
def ratios(repeats: int) -> None:
    print("| noise | block | float32, ms | grid, ms | ratio |\n|---|---|---|---|---|")
    for shape in SHAPES:
        x = image(shape)
        cases: list[tuple[Noise, Noise]] = [(Gaussian(sigma), Gaussian(sigma, grid=GRID)) for sigma in SIGMAS]
        for plain, grid in [*cases, (Uniform(0.5), Uniform(0.5, grid=GRID))]:
            grid.draw(x, generator(0, "x", "warm", 0))
            pairs = np.array([[seconds(noise, x, block) for noise in (plain, grid)] for block in range(repeats)]) * 1e3
            a, b = np.median(pairs, axis=0)
            name = f"{plain.name} {plain.strength:g}"
            print(f"| {name} | {(BLOCK, *shape)} | {a:.3f} | {b:.3f} | {np.median(pairs[:, 1] / pairs[:, 0]):.2f} |")


@torch.inference_mode()
def shares(repeats: int) -> None:
    print("\n| sigma | noise, ms | ResNet-20, ms | share of noise |\n|---|---|---|---|")
    shape = (3, 32, 32)
    model = build(Architecture("cifar-resnet20", 10, shape), seed=0).eval().to(memory_format=torch.channels_last)
    x = image(shape)
    model(x)
    for sigma in SIGMAS:
        noise, times = Gaussian(sigma, grid=GRID), []
        for block in range(repeats):
            drawing = seconds(noise, x, block)
            start = time.thread_time()
            model(x)
            times.append((drawing, time.thread_time() - start))
        drawing, forward = np.median(times, axis=0)
        print(f"| {sigma} | {drawing * 1e3:.2f} | {forward * 1e3:.1f} | {drawing / (drawing + forward):.1%} |")


def chi_square(noise: Gaussian | Uniform, draws: int) -> None:
    """Counts of all k against their probabilities; k with fewer than 5 expected are pooled into the ends."""
    far, size = 4096, 10**6
    observed = np.zeros(2 * far + 1, dtype=np.int64)
    for block in range(-(-draws // size)):
        noisy = noise.draw(torch.zeros(1, size), generator(1, noise.name, "bound", block))
        observed += np.bincount((noisy * 255).round().long().flatten().numpy() + far, minlength=2 * far + 1)
    total, edges = int(observed.sum()), (np.arange(-far, far + 1) + 0.5) / 255
    law = stats.norm(scale=noise.strength) if noise.norm == "l2" else stats.uniform(-noise.strength, 2 * noise.strength)
    lower = np.diff(law.cdf(edges), prepend=0.0)
    expected = np.where(edges < 0, lower, lower[::-1]) * total  # by symmetry: tails to full precision
    inner = np.flatnonzero(expected >= 5)
    first, last = inner[0], inner[-1] + 1

    def pool(counts: np.ndarray) -> np.ndarray:
        ends = counts[: first + 1].sum(), counts[last - 1 :].sum()
        return np.concatenate([ends[:1], counts[first + 1 : last - 1], ends[1:]])

    test = stats.chisquare(pool(observed), pool(expected), sum_check=False)
    cells = len(pool(expected))
    tails = ["-"] * 3
    if noise.norm == "l2":
        beyond = [np.abs(np.arange(-far, far + 1)) > z * noise.strength * 255 for z in (4, 5, 6)]
        tails = [f"{observed[far_out].sum()} / {expected[far_out].sum():.2f}" for far_out in beyond]
    print(
        f"| {noise.name} {noise.strength:g} | {total:.0e} | {cells} | {test.statistic:.1f} | {test.pvalue:.3f} | "
        f"{' | '.join(tails)} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chi-square", type=int, default=10**8, help="draws per noise; 0 leaves that table out")
    parser.add_argument("--repeats", type=int, default=200, help="blocks per time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ratios(options.repeats)
    shares(max(3, options.repeats // 10))
    if options.chi_square:
        print("\nBeyond z sigma: observed / expected.\n\n| noise | draws | cells | chi-square | p | 4 | 5 | 6 |")
        print("|---|---|---|---|---|---|---|---|")
        for noise in (Gaussian(0.25, grid=GRID), Gaussian(0.5, grid=GRID), Uniform(0.4, grid=GRID)):
            chi_square(noise, options.chi_square)


if __name__ == "__main__":
    main()
