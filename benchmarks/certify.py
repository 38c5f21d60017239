"""Draws per second against what people run: python benchmarks/certify.py [--model lenet] [--seconds 3] [--repeats 5]

In one interleaved run per model: a loop as in Cohen et al.'s code, ART (pip install 'smoothcert[bench]'), every backend
of ours end to end, with exact noise on the grid, and the bare forward pass of that backend with the same batch and
workers on ready noise, which is the limit. Ours has draws for whole calls of all workers: what the last call of a short
run loses is no matter of the rate. Weights are random; batch-norm has the statistics of noisy batches.
`--growth` instead shows that evaluations per second depend neither on n, nor on the number of inputs, nor on the number
of members of an ensemble.
"""

import argparse
import dataclasses
import math
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import torch
from overhead import BareCall
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.engine.backends import BACKENDS, installed
from smoothcert.engine.backends.auto import throughput
from smoothcert.engine.backends.base import int8_sums
from smoothcert.models import Architecture, build

SIGMA, CLASSES = 0.25, 10
SPECS = {
    "lenet": Architecture("lenet", CLASSES, (1, 28, 28)),
    "lenet-small": Architecture("lenet-small", CLASSES, (1, 28, 28)),
    "cifar-resnet20": Architecture("cifar-resnet20", CLASSES, (3, 32, 32)),
    "cifar-resnet110": Architecture("cifar-resnet110", CLASSES, (3, 32, 32)),
}
Rate = Callable[[float], float]  # seconds to spend -> draws per second


def network(spec: Architecture) -> nn.Module:
    """Random weights, and batch-norm that has seen noise: else deep networks answer one class whatever comes."""
    torch.manual_seed(0)
    model = build(spec, seed=0).train()
    with torch.no_grad():
        for _ in range(5):
            x = torch.rand(128, *spec.input_shape)
            model(x + SIGMA * torch.randn_like(x))
    return model.eval()


def cohen(model: nn.Module, x: Tensor, batch: int) -> Rate:
    """The sampling loop of Cohen et al. 2019: copies of x, noise, argmax, and votes counted one by one in Python."""

    @torch.no_grad()
    def rate(seconds: float) -> float:
        votes, drawn, begin = np.zeros(CLASSES, dtype=int), 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            copies = x.repeat((batch, 1, 1, 1))
            answers = model(copies + torch.randn_like(copies) * SIGMA).argmax(1)
            for answer in answers.cpu().numpy():
                votes[answer] += 1
            drawn += batch
        return drawn / (time.perf_counter() - begin)

    return rate


def art(model: nn.Module, x: Tensor) -> Rate:
    """`PyTorchRandomizedSmoothing.certify`, which makes all n noisy copies of an input at once."""
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing  # noqa: PLC0415

    n, n0 = 400, 100  # it grows to what fills the time
    smoothed = PyTorchRandomizedSmoothing(
        model=model,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(x.shape),
        nb_classes=CLASSES,
        channels_first=True,
        clip_values=None,
        sample_size=n0,
        scale=SIGMA,
        alpha=0.001,
    )

    def rate(seconds: float) -> float:
        nonlocal n
        begin = time.perf_counter()
        smoothed.certify(x[None].numpy(), n=n, batch_size=400)
        found = (n + n0) / (time.perf_counter() - begin)
        n = min(10_000, max(400, int(found * seconds)))
        return found

    return rate


def whole_calls(g: sc.Smoothed, inputs: Tensor, draws: float) -> sc.Fixed:
    """About so many draws of all inputs together, in whole calls of all workers."""
    compiled, procedure = g.compile(inputs.shape[1:]), sc.Fixed()
    unit = math.lcm(compiled.rows * compiled.workers, len(inputs))
    least = 2 * procedure.n0 * len(inputs)
    count = max(round(draws / unit), -(-least // unit))
    return dataclasses.replace(procedure, n=count * unit // len(inputs) - procedure.n0)


def ours(g: sc.Smoothed, inputs: Tensor, guess: float) -> Rate:
    """Certification end to end, with as many draws as the last rate fills the time with."""
    last = [guess]

    def rate(seconds: float) -> float:
        procedure = whole_calls(g, inputs, last[0] * seconds)
        begin = time.perf_counter()
        certificates = g.certify(inputs, procedure)
        last[0] = sum(c.draws for c in certificates) / (time.perf_counter() - begin)
        return last[0]

    return rate


def processor_share(g: sc.Smoothed, inputs: Tensor, rate: float, seconds: float) -> float:
    """Processor time of a row of the bare pass, over that of a draw: what wall time cannot tell on a busy machine.

    By the same workers, who share caches and memory.
    """
    compiled, own = g.compile(inputs.shape[1:]), time.process_time()
    draws = sum(c.draws for c in g.certify(inputs, whole_calls(g, inputs, rate * seconds)))
    per_draw, own = (time.process_time() - own) / draws, time.process_time()
    calls = draws // compiled.rows
    with sc.Threads(compiled.workers).open(compiled) as session:
        session.map([BareCall(compiled.task.probe())] * calls)
    return (time.process_time() - own) / (calls * compiled.rows) / per_draw


def smoothed(model: nn.Module, spec: Architecture, backend: str) -> sc.Smoothed:
    calibration = torch.rand(512, *spec.input_shape, generator=torch.Generator().manual_seed(1))
    noise = sc.Gaussian(SIGMA, grid=1 / 255)
    return sc.Smoothed(
        model, CLASSES, noise, backend=backend, calibration=calibration, input_shape=tuple(spec.input_shape)
    )


def contestants(
    model: nn.Module, spec: Architecture, names: list[str]
) -> tuple[dict[str, Rate], dict[str, str], dict[str, Rate]]:
    """Everything to measure, warmed up; the start-up cost of our backends, and their shares of processor time."""
    inputs = torch.rand(4, *spec.input_shape, generator=torch.Generator().manual_seed(0)).mul(255).round().div(255)
    rates = {f"Cohen-style loop, batch {batch}": cohen(model, inputs[0], batch) for batch in (400, 1000)}
    if find_spec("art") is not None:
        rates["ART 1.20"] = art(model, inputs[0])
    else:
        print("ART is not installed and not measured: pip install 'smoothcert[bench]'")
    starts: dict[str, str] = {}
    shares: dict[str, Rate] = {}
    for name in names:
        if not installed(name):
            print(f"{name} is not installed and not measured: pip install 'smoothcert[{BACKENDS[name].extra}]'")
            continue
        g, begin = smoothed(model, spec, name), time.perf_counter()
        compiled = g.compile(inputs.shape[1:])
        if compiled.note is not None:
            print(compiled.note)
            continue
        starts[name] = f"{time.perf_counter() - begin:.1f} s, batch {compiled.rows} x {compiled.workers} workers"
        measure = partial(throughput, compiled.executable, compiled.task, compiled.workers)
        guess = measure(0.3)
        rates[name] = ours(g, inputs, guess)
        shares[name] = partial(processor_share, g, inputs, guess)
        rates[f"{name}, bare"] = measure
    return rates, starts, shares


def compare(name: str, backends: list[str], seconds: float, repeats: int) -> None:
    spec = SPECS[name]
    print(f"\n## {name} {spec.input_shape}, sigma {SIGMA}\n", flush=True)
    rates, starts, shares = contestants(network(spec), spec, backends)
    found: dict[str, list[float]] = {one: [] for one in rates}
    own: dict[str, list[float]] = {one: [] for one in shares}
    for rate in rates.values():
        rate(min(seconds, 0.5))
    for _ in range(repeats):
        for one, rate in rates.items():
            found[one].append(rate(seconds))
        for one, share in shares.items():
            own[one].append(share(seconds))
    middle = {one: median(values) for one, values in found.items()}
    best = max(rate for one, rate in middle.items() if one.startswith("Cohen"))
    print("\n| | draws/s | min-max | against the better loop | bare | of it | of its processor time | start-up |")
    print("|---|---|---|---|---|---|---|---|")
    for one, values in found.items():
        if one.endswith(", bare"):
            continue
        row = f"| {one} | {middle[one]:.0f} | {min(values):.0f}-{max(values):.0f} | {middle[one] / best:.2f} |"
        if one in starts:
            bare = found[f"{one}, bare"]
            # Paired by round: the load of the machine changes more between rounds than within one.
            share = median(value / limit for value, limit in zip(values, bare, strict=True))
            print(f"{row} {median(bare):.0f} | {share:.0%} | {median(own[one]):.0%} | {starts[one]} |")
        else:
            print(f"{row} | | | |")


def growth(name: str, backend: str, repeats: int, path: Path) -> None:
    """Evaluations per second against n, the number of inputs, and the number of members of an ensemble."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    spec = SPECS[name]
    alone = smoothed(network(spec), spec, backend)
    inputs = torch.rand(32, *spec.input_shape, generator=torch.Generator().manual_seed(0))
    sizes = (1, 2, 4)
    together = {k: smoothed(sc.SoftVoting([network(spec) for _ in range(k)]), spec, backend) for k in sizes}
    for g in (alone, *together.values()):
        g.certify(inputs[:1], sc.Fixed(n=1_000))
    series = {  # value, whom, inputs, n, evaluations per draw
        "n, with 4 inputs": [(n, alone, 4, n, 1) for n in (1_000, 3_000, 10_000)],
        "inputs, with n = 1000": [(k, alone, k, 1_000, 1) for k in (2, 8, 32)],
        "members, with 4 inputs, n = 3000": [(k, together[k], 4, 3_000, k) for k in sizes],
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)
    print("| what grows | value | evaluations/s | min-max |\n|---|---|---|---|")
    for axis, (label, points) in zip(axes, series.items(), strict=True):
        rates: dict[int, list[float]] = {value: [] for value, *_ in points}
        for _ in range(repeats):
            for value, g, count, n, each in points:
                begin = time.perf_counter()
                draws = sum(c.draws for c in g.certify(inputs[:count], sc.Fixed(n=n)))
                rates[value].append(each * draws / (time.perf_counter() - begin))
        for value, found in rates.items():
            print(f"| {label} | {value} | {median(found):.0f} | {min(found):.0f}-{max(found):.0f} |", flush=True)
        axis.semilogx(list(rates), [median(found) for found in rates.values()], marker="o")
        axis.set_xticks(list(rates), [str(value) for value in rates], minor=False)
        axis.set_xticks([], minor=True)
        axis.set_xlabel(label)
        axis.margins(y=0.15)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("evaluations/s")
    figure.suptitle(f"{name}, {backend}")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"\nplotted in {path}")


def machine() -> str:
    """Which processor it is, and what it has for eight bits."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
    vnni = "with VNNI" if int8_sums() == "32 bits" else "without VNNI"
    return f"{torch.get_num_threads()} cores of {name}, {torch.backends.cpu.get_cpu_capability()}, {vnni}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=SPECS, nargs="+", default=list(SPECS))
    parser.add_argument("--backend", choices=BACKENDS, nargs="+", default=list(BACKENDS))
    parser.add_argument("--seconds", type=float, default=3.0, help="per cell")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--growth", type=Path, metavar="PNG", help="plot evaluations/s against n, inputs, members")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine(), flush=True)
    for name in options.model:
        if options.growth is not None:
            path = options.growth.with_stem(f"{options.growth.stem}-{name}")
            growth(name, options.backend[0], options.repeats, path)
        else:
            compare(name, options.backend, options.seconds, options.repeats)


if __name__ == "__main__":
    main()
