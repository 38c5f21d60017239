"""All of it together, against what people run: python benchmarks/end_to_end.py --model CHECKPOINT --data mnist

"Is the radius at least r?" for a test set: `Sequential` with backend auto, against n = 100 000 draws per image in a
loop as in Cohen et al.'s code. The rate of that loop is measured in between, for 5 s per round; its time is computed.
"""

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from certify import cohen

import smoothcert as sc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True, help="checkpoint of a classifier")
    parser.add_argument("--data", default="mnist", help="as in smoothcert certify")
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--radius", type=float, default=0.5)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    data = sc.datasets.load(options.data, "test")
    chosen = list(range(0, len(data), options.every))
    x, labels = data.tensors(chosen), data.labels[chosen]
    model = sc.load_model(options.model).model
    noise, procedure = sc.Gaussian(options.sigma, grid=1 / 255), sc.Sequential(radius=options.radius, n=options.n)
    g = sc.Smoothed(model, num_classes=10, noise=noise, backend="auto", input_shape=tuple(x.shape[1:]))
    begin = time.perf_counter()
    compiled = g.compile(x.shape[1:])
    g.certify(x[:1], procedure)  # boundaries are computed once and kept
    start = time.perf_counter() - begin
    loops = {batch: cohen(model, x[0], batch) for batch in (400, 1000)}
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(options.rounds):
        rate = max(loop(5.0) for loop in loops.values())
        theirs.append((100 + options.n) * len(x) / rate)
        begin = time.perf_counter()
        certificates = g.certify(x, procedure)
        ours.append(time.perf_counter() - begin)
    right = np.mean([c.label == y and c.radius >= options.radius for c, y in zip(certificates, labels, strict=True)])
    draws = np.mean([c.draws for c in certificates])
    about = f"{compiled.description['backend']['name']}, batch {compiled.rows}, {compiled.workers} workers"
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    cores = torch.get_num_threads()
    print(f"{len(x)} images of {data.name}, r = {options.radius:g}, sigma = {options.sigma:g}, {cores} cores")
    print(f"certified accuracy at r: {100 * right:.1f}%; draws per image: {draws:.0f} (Cohen: {options.n + 100})")
    print(f"Cohen-style loop, n = {options.n}, the better of batch 400 and 1000: {median(theirs):.0f} s (extrapolated)")
    print(f"Sequential, {about}: {median(ours):.2f} s, start-up {start:.1f} s")
    print(
        f"speed-up {median(ratios):.0f} (min {min(ratios):.0f}, max {max(ratios):.0f} of {options.rounds} rounds); ",
        end="",
    )
    print(f"with the start-up {median(theirs) / (median(ours) + start):.0f}")


if __name__ == "__main__":
    main()
