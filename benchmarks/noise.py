"""What exact sampling on a grid costs, and whether it is exact: python benchmarks/noise.py [--chi-square 100000000]

Three tables: time of noisy inputs on the grid, drawn by row from their own random bits, over float32 normals of torch
(`torch.randn`, with the generator of a block of 128 draws, scaled and added), and over our own float noise, of one
input or, "8 x 16", of eight that share a call of the model, with a generator each; the share of noise in certification
with a ResNet-20; and the draws against the exact law, tails included. Times are processor time of one thread, the
median of repeats taken in turn, so that a busy machine disturbs them little.
"""

import argparse
import time
from itertools import product

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from smoothcert.core.randomness import BLOCK, JoinedRows, RowStream, generator
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian, Noise, Uniform

GRID = 1 / 255
SHAPES = [(1, 28, 28), (3, 32, 32)]
SIGMAS = (0.25, 0.5, 1.0)
REQUESTS = ((1, BLOCK), (1, 16), (8, 16))  # inputs that share a call, and rows of each


def image(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    pixels = np.random.default_rng(seed).integers(0, 256, shape)
    return torch.from_numpy(pixels.astype(np.float32) / np.float32(255))


def seconds(noise: Noise, x: Tensor, first: int, out: Tensor) -> float:
    """Of rows `first`, `first + 1`, ..., with all that it takes to begin."""
    start = time.thread_time()
    noise.draw_rows(x, RowStream(0, "x", "bound"), first, out)
    return time.thread_time() - start


def together_seconds(noise: Noise, xs: list[Tensor], first: int, out: Tensor) -> float:
    """Of as many rows of each input."""
    if len(xs) == 1:
        return seconds(noise, xs[0], first, out)
    start, rows = time.thread_time(), len(out) // len(xs)
    streams = JoinedRows(tuple((RowStream(0, str(i), "bound"), first, rows) for i in range(len(xs))))
    noise.draw_together(xs, streams, out)
    return time.thread_time() - start


def normals_seconds(sigma: float, xs: list[Tensor], number: int, out: Tensor) -> float:
    """What a sampling loop does: normals of torch, scaled and added."""
    start = time.thread_time()
    for i, (x, part) in enumerate(zip(xs, out.chunk(len(xs)), strict=True)):
        stream = generator(0, str(i), "bound", number)
        torch.randn(part.shape, generator=stream, out=part).mul_(sigma).add_(x)
    return time.thread_time() - start


@torch.inference_mode()
def ratios(repeats: int) -> None:
    print("| noise | rows | torch normals, ms | our floats, ms | grid, ms | grid / torch | grid / our floats |")
    print("|---|---|---|---|---|---|---|")
    for shape, (inputs, rows) in product(SHAPES, REQUESTS):
        xs, out = [image(shape, i) for i in range(inputs)], torch.empty(inputs * rows, *shape)
        label = f"{inputs} x {rows}" if inputs > 1 else f"{rows}"
        cases: list[tuple[Noise, Noise]] = [(Gaussian(sigma), Gaussian(sigma, grid=GRID)) for sigma in SIGMAS]
        for plain, grid in [*cases, (Uniform(0.5), Uniform(0.5, grid=GRID))]:
            together_seconds(grid, xs, 0, out)
            found = np.array(
                [
                    (
                        normals_seconds(plain.strength, xs, i, out),
                        *(together_seconds(n, xs, i * rows, out) for n in (plain, grid)),
                    )
                    for i in range(repeats)
                ]
            )
            times = " | ".join(f"{time:.3f}" for time in 1e3 * np.median(found, axis=0))
            shares = " | ".join(f"{np.median(found[:, 2] / found[:, other]):.2f}" for other in (0, 1))
            print(f"| {plain.name} {plain.strength:g} | {label} of {shape} | {times} | {shares} |", flush=True)


@torch.inference_mode()
def shares(repeats: int) -> None:
    print("\n| sigma | noise, ms | ResNet-20, ms | share of noise |\n|---|---|---|---|")
    shape = (3, 32, 32)
    model = build(Architecture("cifar-resnet20", 10, shape), seed=0).eval().to(memory_format=torch.channels_last)
    x, out = image(shape), torch.empty(BLOCK, *shape)
    model(out.zero_())
    for sigma in SIGMAS:
        noise, times = Gaussian(sigma, grid=GRID), []
        for number in range(repeats):
            drawing = seconds(noise, x, number * BLOCK, out)
            start = time.thread_time()
            model(out)
            times.append((drawing, time.thread_time() - start))
        drawing, forward = np.median(times, axis=0)
        print(f"| {sigma} | {drawing * 1e3:.2f} | {forward * 1e3:.1f} | {drawing / (drawing + forward):.1%} |")


def chi_square(noise: Gaussian | Uniform, draws: int) -> None:
    """Counts of all k against their probabilities; k with fewer than 5 expected are pooled into the ends."""
    far, rows, size = 4096, 1000, 1000
    observed, noisy, stream = np.zeros(2 * far + 1, dtype=np.int64), torch.empty(rows, size), RowStream(1, "x", "bound")
    for number in range(-(-draws // (rows * size))):
        noise.draw_rows(torch.zeros(size), stream, number * rows, noisy)
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
    parser.add_argument("--repeats", type=int, default=200, help="repeats per time")
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
