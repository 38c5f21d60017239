"""Do votes depend on the batch size? Counts draws that fall otherwise: python benchmarks/replay.py [--draws 200000]

The noise is bit-identical by construction (tests/engine/test_sampler.py). Scores may differ in the last bits when a
kernel sees another shape, so a vote may differ where two scores tie within rounding. The engine therefore always shows
a module one shape on a CPU, or another one only after it has seen that no bit changes.
"""

import argparse

import torch

from smoothcert.core.randomness import RowStream
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian

MODELS = [Architecture("lenet", 10, (1, 28, 28)), Architecture("cifar-resnet20", 10, (3, 32, 32))]
SIZES = (1, 7, 50, 256, 1000)
ROWS, GROUP = 128, 8  # of a call, and calls drawn at a time


@torch.inference_mode()
def moved(spec: Architecture, size: int, draws: int) -> tuple[int, int]:
    """How many of so many draws get another vote in batches of `size` than in calls of 128."""
    model = build(spec, seed=0).eval().to(memory_format=torch.channels_last)
    x = torch.rand(spec.input_shape, generator=torch.Generator().manual_seed(0))
    noisy, stream = torch.empty(ROWS * GROUP, *spec.input_shape), RowStream(0, "x", "bound")
    different = total = 0
    while total < draws:
        Gaussian(2.0).draw_rows(x, stream, total, noisy)
        whole = torch.cat([model(part) for part in noisy.split(ROWS)]).argmax(1)
        other = torch.cat([model(part) for part in noisy.split(size)]).argmax(1)
        different += int((whole != other).sum())
        total += len(whole)
    return different, total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=200_000, help="draws per model and batch size")
    draws = parser.parse_args().draws
    print("| model | batch size | draws | votes that moved | per 100 000 |\n|---|---|---|---|---|")
    for spec in MODELS:
        for size in SIZES:
            different, total = moved(spec, size, draws)
            print(f"| {spec.name} | {size} | {total} | {different} | {different / total * 1e5:.2f} |", flush=True)


if __name__ == "__main__":
    main()
