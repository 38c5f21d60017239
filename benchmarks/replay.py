"""Do votes depend on the batch size? Counts draws that fall otherwise: python benchmarks/replay.py [--draws 200000]

The noise is bit-identical by construction (tests/engine/test_sampler.py). Scores may differ in the last bits when a
kernel sees another shape, so a vote may differ where two scores tie within rounding. On whole blocks, the default on
a CPU, the shapes are the same and so are the votes.
"""

import argparse

import torch

from smoothcert.core.randomness import BLOCK, generator
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian

MODELS = [Architecture("lenet", 10, (1, 28, 28)), Architecture("cifar-resnet20", 10, (3, 32, 32))]
SIZES = (1, 7, 50, 256, 1000)
GROUP = 8  # blocks drawn at a time


@torch.inference_mode()
def moved(spec: Architecture, size: int, draws: int) -> tuple[int, int]:
    """How many of so many draws get another vote in batches of `size` than in whole blocks."""
    model = build(spec, seed=0).eval().to(memory_format=torch.channels_last)
    x = torch.rand(spec.input_shape, generator=torch.Generator().manual_seed(0)).expand(BLOCK, *spec.input_shape)
    different = total = 0
    while total < draws:
        first = total // BLOCK
        blocks = [Gaussian(2.0).draw(x, generator(0, "x", "bound", first + i)) for i in range(GROUP)]
        whole = torch.cat([model(block) for block in blocks]).argmax(1)
        other = torch.cat([model(part) for part in torch.cat(blocks).split(size)]).argmax(1)
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
