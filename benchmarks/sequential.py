"""Sequential against Fixed on a real model and real images: python benchmarks/sequential.py --model CHECKPOINT

Certifies the same test images of mnist5k with Fixed(n), in chunks, and in between with Sequential at each radius, and
prints certified accuracy, draws and time. SampleRF and TimeRF: how many times fewer draws (n0 counted in both), and
how many times less time per image (medians over the chunks).
"""

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import smoothcert as sc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True, help="checkpoint of a classifier of MNIST")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--radii", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--chunk", type=int, default=20)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--backend", default="eager", help="how the model is run, as in smoothcert certify")
    options = parser.parse_args()

    data = sc.datasets.load("mnist5k", "test")
    model, noise = sc.load_model(options.model).model, sc.Gaussian(options.sigma, grid=1 / 255)
    g = sc.Smoothed(model, num_classes=10, noise=noise, backend=options.backend)
    procedures: dict[str, sc.Fixed | sc.Sequential] = {"fixed": sc.Fixed(n=options.n)}
    procedures |= {f"sequential r={r:g}": sc.Sequential(radius=r, n=options.n) for r in options.radii}
    procedures["sequential, all"] = sc.Sequential(radius=options.radii, n=options.n)
    for procedure in list(procedures.values())[1:]:  # boundaries are computed once and kept: not a time per image
        g.certify(data.tensors([0]), procedure)

    certificates: dict[str, list[sc.Certificate]] = defaultdict(list)
    times: dict[str, list[float]] = defaultdict(list)  # per image, of every round
    everything = data.tensors(range(options.images))
    for chunk in everything.split(options.chunk):
        for name, procedure in procedures.items():
            x = chunk if name == "fixed" else everything
            begin = time.perf_counter()
            found = g.certify(x, procedure)
            times[name].append((time.perf_counter() - begin) / len(x))
            certificates[name] = certificates[name] + found if name == "fixed" else found
        print(f"{len(certificates['fixed'])} of {options.images} images", flush=True)
    seconds = {name: float(np.median(rounds)) for name, rounds in times.items()}
    draws = {name: float(np.mean([c.draws for c in found])) for name, found in certificates.items()}

    radii, labels = options.radii, data.labels[: options.images]
    print(f"\n| procedure | {' | '.join(f'at {r:g}' for r in radii)} | draws/image | SampleRF | TimeRF | draws/s |")
    print("|---" * (len(radii) + 5) + "|")
    for name, found in certificates.items():
        cells = []
        for r in radii:
            right = np.mean([c.label == y and c.radius >= r for c, y in zip(found, labels, strict=True)])
            # A procedure asked about one radius says nothing about the others.
            asked = name in ("fixed", "sequential, all") or name.endswith(f"={r:g}")
            cells.append(f"{100 * right:.1f}%" if asked else "")
        rates = f"{draws['fixed'] / draws[name]:.1f} | {seconds['fixed'] / seconds[name]:.1f}"
        print(f"| {name} | {' | '.join(cells)} | {draws[name]:.0f} | {rates} | {draws[name] / seconds[name]:.0f} |")


if __name__ == "__main__":
    main()
