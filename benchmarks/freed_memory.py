"""What it gains to keep freed memory for the next array: python benchmarks/freed_memory.py [--repeats 3]

Certification by torch alone and training steps, each in a process of its own, with memory kept as smoothcert keeps it
and as the C library does by itself (GLIBC_TUNABLES is set, to nothing). The processes take turns; medians.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from statistics import median

import torch

import smoothcert as sc
from smoothcert.core.freed_memory import OF_THE_USER
from smoothcert.models import Architecture, build
from smoothcert.training.objectives import PGD, Consistency

SIGMA, SECONDS = 0.5, 3.0
SHAPES = {"lenet": (1, 28, 28), "lenet-small": (1, 28, 28), "cifar-resnet20": (3, 32, 32)}


def certifying(network: str) -> float:
    """Draws per second, after a first call."""
    shape = SHAPES[network]
    model = build(Architecture(network, 10, shape), seed=0).eval()
    x = (torch.rand(4, *shape, generator=torch.Generator().manual_seed(0)) * 255).round() / 255
    g = sc.Smoothed(model, 10, sc.Gaussian(SIGMA, grid=1 / 255), backend="eager")
    g.certify(x, sc.Fixed(n=200))
    n = 1000
    while True:
        begin = time.perf_counter()
        g.certify(x, sc.Fixed(n=n))
        if (seconds := time.perf_counter() - begin) > SECONDS / 2:
            return len(x) * n / seconds
        n *= 2


def training(network: str) -> float:
    """Inputs per second of one thread, of an attack in one step with two draws, after a first epoch."""
    torch.set_num_threads(1)
    shape = SHAPES[network]
    model, epochs = build(Architecture(network, 10, shape), seed=0), []
    data = torch.rand(2048, *shape), torch.arange(2048) % 10
    objective = Consistency(sc.Gaussian(SIGMA), draws=2, attack=PGD(eps=1.0, steps=1))
    sc.train(model, data, objective, epochs=3, lr=0.001, chunk=64, on_epoch=epochs.append)
    return len(data[0]) / median(epoch.seconds for epoch in epochs[1:])


CASES = {f"{name} of {network}": (name, network) for name in ("certify", "train") for network in SHAPES}
WORK = {"certify": certifying, "train": training}


def of_case(case: str, kept: bool) -> tuple[float, int]:
    """Rate and page faults of a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OF_THE_USER)}
    extra = {} if kept else {"GLIBC_TUNABLES": ""}
    command = [sys.executable, __file__, "--case", case]
    done = subprocess.run(command, env=environment | extra, capture_output=True, text=True, check=True)
    rate, faults = json.loads(done.stdout)
    return rate, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=WORK, default="", help="certify, or train")
    parser.add_argument("--case", choices=CASES, help="measure one here, and print it as JSON")
    options = parser.parse_args()
    if options.case:
        work, network = CASES[options.case]
        rate = WORK[work](network)
        print(json.dumps([rate, resource.getrusage(resource.RUSAGE_SELF).ru_minflt]))
        return
    print(
        "| | per second, as it is | kept | ratio | min-max | thousand page faults, as it is | kept |\n"
        + "|---" * 7
        + "|"
    )
    for case in (case for case in CASES if case.startswith(options.only)):
        found = [(of_case(case, kept=False), of_case(case, kept=True)) for _ in range(options.repeats)]
        ratios = [kept[0] / plain[0] for plain, kept in found]
        rates = [median(pair[i][0] for pair in found) for i in (0, 1)]
        faults = [median(pair[i][1] for pair in found) / 1000 for i in (0, 1)]
        cells = f"{rates[0]:.0f} | {rates[1]:.0f} | {median(ratios):.2f} | {min(ratios):.2f}-{max(ratios):.2f}"
        print(f"| {case} | {cells} | {faults[0]:.0f} | {faults[1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
