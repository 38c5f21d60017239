"""How a memory grows: python benchmarks/memory.py --data mnist.npz --data cifar10.npz [--most 100000]

For n = 1e3, 1e4, 1e5 regions of real images with noise: milliseconds of an insertion (one transaction, flushed to the
disk) and of a question (`answer`), how many regions the index could not leave out, and how much processor time opening
takes. Medians, and the 90% quantile in brackets, over images that were not there before. `--store` takes the
postgresql:// address of an empty database instead of an SQLite file in a temporary folder.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from smoothcert.memory import Memory
from smoothcert.memory.distance import encode
from smoothcert.memory.store import Region
from smoothcert.procedures import Certificate, Scope
from smoothcert.stats import Tally

SIZES = (1_000, 10_000, 100_000)
RADIUS = 1.5  # of what is inserted; what is there has up to 1


def images(path: str, count: int, sigma: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images of both splits, repeated as often as needed, each with noise of its own, on the grid of 8 bits."""
    with np.load(path) as data:
        x = np.concatenate([data["x_train"], data["x_test"]])
        y = np.concatenate([data["y_train"], data["y_test"]]).reshape(-1)
    order = np.concatenate([rng.permutation(len(x)) for _ in range(-(-count // len(x)))])[:count]
    x = x[order].reshape(count, *x.shape[1:3], -1).transpose(0, 3, 1, 2)  # (n, C, H, W)
    for start in range(0, count, 10_000):
        part = x[start : start + 10_000]
        noisy = part + rng.normal(size=part.shape, scale=255 * sigma)
        x[start : start + 10_000] = np.clip(np.rint(noisy), 0, 255)
    return x, y[order].astype(np.int64)


def certificate(label: int, radius: float) -> Certificate:
    return Certificate(
        label=label,
        radius=radius,
        norm="l2",
        p_lower=0.9,
        reason="of a benchmark",
        alpha=0.001,
        procedure={"name": "benchmark"},
        answers=(("bound", Tally((1, 2))),),
        noise={"name": "gaussian", "norm": "l2"},
        classifier={"fingerprint": "benchmark"},
        scope=Scope.OWN,
    )


def fill(memory: Memory, x: np.ndarray, y: np.ndarray, radii: np.ndarray) -> None:
    """Regions at once and without the rule, which single insertions are measured for."""
    start, before = len(memory), memory._last or str((memory.owner or {})["id"])
    with memory._store.writing():
        for i in range(start, len(x)):
            about = {"radius": float(radii[i])}
            region = Region.of(before, i + 1, int(y[i]), float(radii[i]), encode(unit(x[i])), about)
            memory._store.add(region)
            before = region.digest


def unit(image: np.ndarray) -> np.ndarray:
    return image.astype(np.float32) / np.float32(255)


def milliseconds(times: list[float]) -> str:
    middle, high = np.quantile(np.array(times) * 1e3, [0.5, 0.9])
    return f"{middle:.2f} ({high:.2f})"


def measure(times: tuple[list[float], list[float]], work: Callable[..., object], *given: object) -> None:
    start, used = time.perf_counter(), time.process_time()
    work(*given)
    times[0].append(time.perf_counter() - start)
    times[1].append(time.process_time() - used)


def rows(path: str, where: str, sizes: list[int], repeats: int, sigma: float) -> None:
    rng = np.random.default_rng(0)
    x, y = images(path, max(sizes) + 2 * repeats * len(sizes), sigma, rng)
    radii = rng.uniform(0.1, 1.0, len(x))
    memory = Memory(where)
    memory.insert(unit(x[0]), certificate(int(y[0]), float(radii[0])))
    fresh = max(sizes)
    for size in sizes:
        fill(memory, x[:size], y[:size], radii[:size])
        start = time.process_time()
        memory = Memory(where)
        count = len(memory)
        opening = time.process_time() - start
        near = []
        asks: tuple[list[float], list[float]] = ([], [])  # on the clock, of the processor
        inserts: tuple[list[float], list[float]] = ([], [])
        for i in range(fresh, fresh + repeats):
            image = unit(x[i])
            measure(asks, memory.answer, image)
            near.append(len(memory._regions.near(image.reshape(1, -1), [int(y[i])], [RADIUS])[0]))
        for i in range(fresh, fresh + repeats):
            image, own = unit(x[i]), certificate(int(y[i]), RADIUS)
            measure(inserts, memory.insert, image, own)
        fresh += repeats
        cells = [Path(path).stem, x[0].size, count, *map(milliseconds, (*asks, *inserts))]
        cells += [f"{np.mean(near):.1f}", f"{opening:.2f}"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, help="an .npz with x_train, x_test and labels")
    parser.add_argument("--store", help="default: an SQLite file in a temporary folder")
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--sigma", type=float, default=0.05, help="of the noise on the images")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= options.most]
    names = "images, numbers, regions, answer ms, of it processor, insert ms, of it processor, near (mean), opening s"
    print("| " + " | ".join(names.split(", ")) + " |\n" + "|---" * 9 + "|")
    for path in options.data:
        with tempfile.TemporaryDirectory() as folder:
            rows(path, options.store or f"{folder}/regions.sqlite", sizes, options.repeats, options.sigma)


if __name__ == "__main__":
    main()
