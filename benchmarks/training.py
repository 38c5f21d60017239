"""Images per second of training, and the memory of a MACER step: python benchmarks/training.py [--rounds 5]

Ours, also in bfloat16, against a plain loop (the same objective; default layout, whole batches, torch's SGD) and, where
it is installed (pip install 'smoothcert[bench]'), against the PyTorch trainers of ART. All of them train the same
networks on the same random images, interleaved, each for as many steps; medians over the rounds. Peak memory is that of
a fresh process.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.models import Architecture, build
from smoothcert.training.objectives import MACER, PGD, Gaussian, Objective, SmoothAdv

SIGMA = 0.5
NOISE = sc.Gaussian(SIGMA)
LENET = Architecture("lenet", 10, (1, 28, 28))
RESNET = Architecture("cifar-resnet20", 10, (3, 32, 32), (0.49, 0.48, 0.45), (0.25, 0.24, 0.26))
Epoch = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """A row: `chunk` is what our recipes take for such an objective."""

    spec: Architecture
    objective: Objective
    batch: int
    chunk: int
    steps: int

    @property
    def name(self) -> str:
        """As it stands in the table."""
        words = {"gaussian": "Gaussian", "macer": "MACER m=16", "smoothadv": "SmoothAdv T=2 m=2"}
        return f"{self.spec.name} {words[self.objective.name]}"

    def data(self) -> tuple[Tensor, Tensor]:
        """Random images for all steps."""
        chance, size = torch.Generator().manual_seed(0), self.batch * self.steps
        return torch.rand(size, *self.spec.input_shape, generator=chance), torch.arange(size) % 10


CASES = [
    Case(LENET, Gaussian(NOISE), 128, 64, 16),
    Case(LENET, MACER(NOISE), 128, 16, 2),
    Case(LENET, SmoothAdv(NOISE, PGD(eps=1.0, steps=2), 2), 128, 64, 4),
    Case(RESNET, Gaussian(NOISE), 128, 64, 3),
    Case(RESNET, MACER(NOISE), 32, 16, 1),
    Case(RESNET, SmoothAdv(NOISE, PGD(eps=1.0, steps=2), 2), 128, 64, 1),
]


def ours(case: Case, *, mixed_precision: bool = False) -> Epoch:
    model, data = build(case.spec, seed=0), case.data()
    options = {"batch_size": case.batch, "chunk": case.chunk, "lr": 0.001, "mixed_precision": mixed_precision}

    def epoch() -> None:
        sc.train(model, data, case.objective, epochs=1, **options)

    return epoch


def sgd(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4, nesterov=True)


def plain(case: Case) -> Epoch:
    model, (x, y) = build(case.spec, seed=0), case.data()
    optimizer, chance = sgd(model), torch.Generator().manual_seed(0)

    def epoch() -> None:
        model.train()
        for rows in torch.randperm(len(x)).split(case.batch):
            optimizer.zero_grad()
            loss = case.objective.loss(model, x[rows], y[rows], chance)
            loss.backward()
            optimizer.step()
            loss.item()

    return epoch


def art(case: Case) -> Epoch:
    from art.estimators.certification import randomized_smoothing as them  # noqa: PLC0415

    model, (x, y) = build(case.spec, seed=0), case.data()
    kinds = {
        "gaussian": (them.PyTorchRandomizedSmoothing, {}),
        "macer": (them.PyTorchMACER, {"gaussian_samples": 16}),
        "smoothadv": (them.PyTorchSmoothAdv, {"epsilon": 1.0, "num_noise_vec": 2, "num_steps": 2}),
    }
    kind, options = kinds[case.objective.name]
    common = {"input_shape": case.spec.input_shape, "nb_classes": 10, "scale": SIGMA, "device_type": "cpu"}
    estimator = kind(model=model, loss=nn.CrossEntropyLoss(), optimizer=sgd(model), **common, **options)
    images, labels = x.numpy(), y.numpy()
    return lambda: estimator.fit(images, labels, batch_size=case.batch, nb_epochs=1)


def speeds(case: Case, rounds: int) -> dict[str, float | str]:
    makers = {"ours": ours, "bfloat16": partial(ours, mixed_precision=True), "plain": plain} | (
        {"ART": art} if find_spec("art") else {}
    )
    found: dict[str, float | str] = {}
    runners: dict[str, Epoch] = {}
    for name, make in makers.items():
        try:
            runners[name] = make(case)
            runners[name]()  # warm-up
        except Exception as error:
            runners.pop(name, None)
            found[name] = f"fails: {str(error).splitlines()[0][:60]}"
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, epoch in runners.items():
            begin = time.perf_counter()
            epoch()
            times[name].append(time.perf_counter() - begin)
    return found | {name: case.batch * case.steps / float(np.median(seconds)) for name, seconds in times.items()}


def peak(draws: int, chunk: int | None) -> None:
    """In a process of its own: one MACER step of 64 inputs."""
    case = Case(LENET, MACER(NOISE, draws=draws), 64, 64, 1)
    model, data = build(case.spec, seed=0), case.data()
    sc.train(model, (data[0][:2], data[1][:2]), Gaussian(NOISE), epochs=1)  # what every step needs
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far is what it is now
    before = resident()
    sc.train(model, data, case.objective, epochs=1, batch_size=64, chunk=chunk, lr=0.001)
    print(resident() - before)


def resident() -> float:
    """The most memory that this process has had, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def memory(draws: int, chunk: int | None) -> float:
    command = [sys.executable, __file__, "--peak", str(draws), str(chunk or 0)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--peak", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        peak(options.peak[0], options.peak[1] or None)
        return
    if not find_spec("art"):
        print("ART is not installed (pip install 'smoothcert[bench]'): its column is left out.\n")
    print("| images/s | ours | in bfloat16 | plain loop | ART | ours / plain | ours / ART | bfloat16 / ours |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        found = speeds(case, options.rounds)
        cells = [found.get(name, "") for name in ("ours", "bfloat16", "plain", "ART")]
        text = [f"{cell:.0f}" if isinstance(cell, float) else str(cell) for cell in cells]
        mine, mixed, *others = cells
        assert isinstance(mine, float), mine
        assert isinstance(mixed, float), mixed
        ratios = [f"{mine / cell:.2f}" if isinstance(cell, float) else "" for cell in others]
        ratios.append(f"{mixed / mine:.2f}")
        print(f"| {case.name} | {' | '.join(text + ratios)} |", flush=True)
    print(
        "\n| MACER on 64 images, LeNet: memory of a step, MB | whole batch | chunks of 16 | of 4 |\n|---|---|---|---|"
    )
    for draws in (4, 16, 64):
        print(f"| m={draws} | {' | '.join(f'{memory(draws, chunk):.0f}' for chunk in (None, 16, 4))} |", flush=True)


if __name__ == "__main__":
    main()
