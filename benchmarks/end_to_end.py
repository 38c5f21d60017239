"""All of it together, against what people run: python benchmarks/end_to_end.py [--model zoo:mnist-0.50]

"Is the radius at least r?" for 500 test images: `Sequential` with backend auto, against the loop of Cohen et al.'s code
with n = 100 000 draws per image, on the same machine in the same run. The loop certifies `--measured` images in full,
in between the rounds of `Sequential`; the time of the others is computed from these. Whether both say the same is
compared image by image: with the loop where it ran, and with `Fixed`, the same procedure here, for `--compared` images.
Near p0 either test may miss by chance, so images on which they differ are listed with their share of votes. With a
`--backend` in int8 the loop still runs the model as it is, another classifier: then read what is said of the answers.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean, median

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.model import Model
from smoothcert.engine import Compiled
from smoothcert.engine.pieces import Batch, Counts
from smoothcert.stats import lower_bound

N0, ALPHA, BATCHES = 100, 0.001, (400, 1000)


@dataclass(frozen=True)
class Loop:
    """CERTIFY as in Cohen et al.'s code: copies of x, noise, argmax, and votes counted one by one in Python."""

    model: nn.Module
    sigma: float
    classes: int
    batch: int

    @torch.no_grad()
    def votes(self, x: Tensor, n: int) -> np.ndarray:
        """Of n draws."""
        counts, left = np.zeros(self.classes, dtype=int), n
        while left > 0:
            copies = x.repeat((min(self.batch, left), 1, 1, 1))
            answers = self.model(copies + torch.randn_like(copies) * self.sigma).argmax(1)
            for answer in answers.cpu().numpy():
                counts[answer] += 1
            left -= len(copies)
        return counts

    def certify(self, x: Tensor, n: int) -> tuple[int, float]:
        """(class, radius), or (-1, 0)."""
        label = int(self.votes(x, N0).argmax())
        p_lower = lower_bound(int(self.votes(x, n)[label]), n, ALPHA)
        return (label, self.sigma * float(stats.norm.ppf(p_lower))) if p_lower > 0.5 else (-1, 0.0)


def fastest(loops: list[Loop], x: Tensor) -> Loop:
    """The batch size that is faster here."""

    def seconds(loop: Loop) -> float:
        loop.votes(x, loop.batch)
        begin = time.perf_counter()
        loop.votes(x, 5_000)
        return time.perf_counter() - begin

    return min(loops, key=seconds)


@contextmanager
def counted_rows() -> Iterator[list[int]]:
    """The rows of every call of the model, those included that are padded or made ahead and never asked for."""
    rows, once = list[int](), Batch.run

    def run(batch: Batch, compiled: Compiled, runner: Model) -> Counts:
        drawn = sum(piece.rows for piece in batch.pieces)
        rows.append(-(-drawn // batch.rows_per_call) * batch.rows_per_call if compiled.padded else drawn)
        return once(batch, compiled, runner)

    Batch.run = run  # type: ignore[method-assign]
    try:
        yield rows
    finally:
        Batch.run = once  # type: ignore[method-assign]


def compare(right: list[bool], fixed: dict[int, bool], looped: dict[int, bool]) -> None:
    """Image by image, where they ran: `Sequential` with `Fixed`, and with the loop."""
    same = [(sum(right[row] == found for row, found in other.items()), len(other)) for other in (fixed, looped)]
    print(f"the same image by image: {same[0][0]} of {same[0][1]} with Fixed, {same[1][0]} of {same[1][1]} ", end="")
    print("with the loop")


def calibration(name: str) -> Tensor:
    """Inputs spread evenly over a training split."""
    data = sc.datasets.load(name, "train")
    return data.tensors(range(0, len(data), max(1, len(data) // 512)))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="zoo:mnist-0.50", help="as in smoothcert certify")
    parser.add_argument("--data", default="mnist500", help="as in smoothcert certify")
    parser.add_argument("--backend", default="auto", help="as in smoothcert certify")
    parser.add_argument("--calibration", help="data for int8, of which the training split is taken")
    parser.add_argument("--images", type=int, default=500, help="spread evenly over the test set")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--radius", type=float, default=0.5)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measured", type=int, default=3, help="images that the loop certifies in every round")
    parser.add_argument("--compared", type=int, help="images that Fixed certifies, spread evenly; default: all")
    return parser.parse_args()


def main() -> None:
    options = parse()
    data = sc.datasets.load(options.data, "test")
    chosen = list(range(0, len(data), max(1, len(data) // options.images)))[: options.images]
    x, labels = data.tensors(chosen), data.labels[chosen]
    model = sc.load_model(options.model).model.eval()
    classes = int(max(data.labels)) + 1
    noise, procedure = sc.Gaussian(options.sigma, grid=1 / 255), sc.Sequential(radius=options.radius, n=options.n)
    g = sc.Smoothed(
        model, num_classes=classes, noise=noise, backend=options.backend, input_shape=tuple(x.shape[1:]),
        calibration=None if options.calibration is None else calibration(options.calibration),
    )  # fmt: skip
    begin = time.perf_counter()
    compiled = g.compile(x.shape[1:])
    g.certify(x[:1], procedure)  # boundaries are computed once and kept
    start = time.perf_counter() - begin
    loop = fastest([Loop(model, options.sigma, classes, batch) for batch in BATCHES], x[0])
    theirs: list[float] = []  # seconds per image
    ours: list[float] = []  # of all images
    looped: dict[int, bool] = {}
    for _ in range(options.rounds):
        for row in range(len(looped), min(len(x), len(looped) + options.measured)):
            begin = time.perf_counter()
            label, radius = loop.certify(x[row], options.n)
            theirs.append(time.perf_counter() - begin)
            looped[row] = bool(label == labels[row] and radius >= options.radius)
        with counted_rows() as rows:
            begin = time.perf_counter()
            certificates = g.certify(x, procedure)
            ours.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    compared = range(0, len(x), max(1, len(x) // (options.compared or len(x))))
    fixed = dict(zip(compared, g.certify(x[list(compared)], sc.Fixed(n=options.n)), strict=True))
    fixed_seconds = time.perf_counter() - begin
    right = [bool(c.label == y and c.radius >= options.radius) for c, y in zip(certificates, labels, strict=True)]
    fixed_right = {row: bool(c.label == labels[row] and c.radius >= options.radius) for row, c in fixed.items()}

    draws, cores = [c.draws for c in certificates], torch.get_num_threads()
    about = f"{compiled.description['backend']['name']}, batch {compiled.rows}, {compiled.workers} workers"
    print(f"{len(x)} images of {data.name}, r = {options.radius:g}, sigma = {options.sigma:g}, {cores} cores")
    print(f"certified accuracy at r: {100 * mean(right):.1f}%; ", end="")
    print(f"draws per image: mean {mean(draws):.0f}, median {median(draws):.0f}, most {max(draws)} ", end="")
    print(f"(Cohen: {options.n + N0})")
    print(f"the calls of the last round had {sum(rows)} rows for {sum(draws)} draws")
    compare(right, fixed_right, looped)
    needed = noise.required_p(options.radius)
    for row in (row for row, found in fixed_right.items() if right[row] != found):
        share = max(fixed[row].votes) / options.n
        print(f"    image {chosen[row]}: {share:.5f} of Fixed's votes for one class, {needed:.5f} are needed")
    cohen = mean(theirs) * len(x)
    print(f"Cohen-style loop, n = {options.n}, batch {loop.batch}: {cohen:.0f} s ({len(theirs)} images were certified)")
    print(f"Sequential, {about}: {median(ours):.2f} s, start-up {start:.1f} s; ", end="")
    print(f"Fixed of {len(fixed)}: {fixed_seconds:.1f} s")
    print(f"speed-up {cohen / median(ours):.0f} (rounds: {', '.join(f'{cohen / s:.0f}' for s in ours)}); ", end="")
    print(f"with the start-up {cohen / (median(ours) + start):.0f}")


if __name__ == "__main__":
    main()
