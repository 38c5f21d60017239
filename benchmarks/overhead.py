"""What a call costs beside the model: python benchmarks/overhead.py [--repeats 9] [--inputs 500]

predict with n = 100 on ResNet-20 and ResNet-110, for every backend, beside the model's own time spread over the
workers: a full call on each worker at once, divided by the rows that it has and multiplied by 100, over the workers.
Bookkeeping is the processor time of the caller's thread, which does all but draw and run, so that it depends little on
how busy the machine is. Then certify with a model that costs next to nothing: bookkeeping per input. Then tabular
models, processor time per draw against a plain vectorised loop. Interleaved, medians.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.model import Model
from smoothcert.core.randomness import RowStream
from smoothcert.engine import Compiled, Smoothed, Threads
from smoothcert.engine.backends import BACKENDS, installed
from smoothcert.models import Architecture, build, fingerprint

SHAPE, CLASSES, NOISE, DRAWS = (3, 32, 32), 10, sc.Gaussian(0.25, grid=1 / 255), 100
NETWORKS = ("cifar-resnet20", "cifar-resnet110")
FEATURES, TABULAR_CLASSES, SPREAD = 20, 3, 0.5


@dataclass(frozen=True, eq=False)
class BareCall:
    """A full call of the model on ready noise."""

    x: Tensor

    @torch.inference_mode()
    def run(self, compiled: Compiled, runner: Model) -> None:
        """Run it."""
        runner(self.x.clone())


def network(name: str) -> nn.Module:
    """Random weights, and batch-norm that has seen noise."""
    torch.manual_seed(0)
    model = build(Architecture(name, CLASSES, SHAPE), seed=0).train()
    with torch.no_grad():
        for _ in range(3):
            model(torch.rand(128, *SHAPE) + 0.25 * torch.randn(128, *SHAPE))
    return model.eval()


def bare(g: Smoothed) -> Callable[[], float]:
    """Seconds that the model itself takes for the draws, if they are spread evenly over the workers."""
    compiled = g.compile(SHAPE)
    session = Threads(compiled.workers).open(compiled)
    works = [BareCall(compiled.task.probe()) for _ in range(compiled.workers)]

    def measure() -> float:
        begin = time.perf_counter()
        session.map(works)
        return (time.perf_counter() - begin) / (compiled.workers * compiled.rows) * DRAWS

    return measure


def noise_seconds(x: Tensor) -> float:
    """Processor time to draw the noise of a prediction."""
    out = torch.empty(DRAWS, *x.shape)
    begin = time.thread_time()
    NOISE.for_inputs(x[None]).draw_rows(x, RowStream(0, "", "noise"), 0, out)
    return time.thread_time() - begin


def predictions(repeats: int, networks: Sequence[str], skipped: Sequence[str]) -> None:
    print(
        "| model | backend | predict, ms | model alone, ms | ratio | bookkeeping, ms | noise, ms | a fingerprint, ms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    x, procedure = torch.rand(*SHAPE, generator=torch.Generator().manual_seed(0)), sc.Predict(n=DRAWS)
    x = (x * 255).round() / 255
    for name in networks:
        model = network(name)
        names = [one for one in BACKENDS if installed(one) and one not in skipped]
        data = torch.rand(256, *SHAPE, generator=torch.Generator().manual_seed(1))
        gs = {one: Smoothed(model, CLASSES, NOISE, backend=one, calibration=data, input_shape=SHAPE) for one in names}
        limits = {one: bare(g) for one, g in gs.items()}
        found: dict[str, list[tuple[float, ...]]] = {one: [] for one in names}
        for one, g in gs.items():
            for _ in range(3):  # compiled, checked, split
                g.predict(x, procedure)
            limits[one]()
        for _ in range(repeats):
            for one, g in gs.items():
                begin, own = time.perf_counter(), time.thread_time()
                g.predict(x, procedure)
                taken, own = time.perf_counter() - begin, time.thread_time() - own
                found[one].append((taken, limits[one](), own, noise_seconds(x)))
        begin = time.thread_time()
        fingerprint(model)
        hashing = 1e3 * (time.thread_time() - begin)
        for one, rows in found.items():
            taken, limit, own, noise = (1e3 * median(column) for column in zip(*rows, strict=True))
            ratio = median(row[0] / row[1] for row in rows)
            cells = f"{taken:.0f} | {limit:.0f} | {ratio:.2f} | {own:.2f} | {noise:.2f} | {hashing:.0f}"
            print(f"| {name} | {one} | {cells} |", flush=True)


def certificates(inputs: int, repeats: int) -> None:
    """Of a model that costs next to nothing, so that what is left is bookkeeping."""
    torch.manual_seed(0)
    x = (torch.rand(inputs, *SHAPE) * 255).round() / 255
    model = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, CLASSES))
    g = Smoothed(model, CLASSES, NOISE, input_shape=SHAPE)
    procedures = {"Fixed": sc.Fixed(n0=100, n=100), "Sequential": sc.Sequential(radius=0.25, n=1000)}
    found: dict[str, list[float]] = {name: [] for name in procedures}
    for procedure in procedures.values():
        g.certify(x[:2], procedure)
    for _ in range(repeats):
        for name, procedure in procedures.items():
            begin = time.thread_time()
            g.certify(x, procedure)
            found[name].append((time.thread_time() - begin) / inputs)
    print("\n| certify | bookkeeping per input, ms |\n|---|---|")
    for name, values in found.items():
        print(f"| {name} | {1e3 * median(values):.2f} |")


def plain_loop(model: Model, x: Tensor, draws: int) -> None:
    """What a user would write: normals of torch, a thousand rows at a time, and counts by numpy."""
    votes = np.zeros(TABULAR_CLASSES, dtype=np.int64)
    with torch.inference_mode():
        for _ in range(draws // 1000):
            answers = model(x + SPREAD * torch.randn(1000, len(x))).argmax(1)
            votes += np.bincount(answers.numpy(), minlength=TABULAR_CLASSES)


def cheap_models(repeats: int) -> None:
    """Tabular models, whose draws cost next to nothing: processor time per draw, beside a plain loop of one thread."""
    x, y = make_classification(2000, FEATURES, n_informative=10, n_classes=TABULAR_CLASSES, random_state=0)
    x = x.astype(np.float32)
    forest = sc.SklearnClassifier(RandomForestClassifier(20, random_state=0).fit(x, y))
    torch.manual_seed(0)
    linear = nn.Linear(FEATURES, TABULAR_CLASSES)
    models: dict[str, tuple[Model, Model, int]] = {  # ours, the loop's, draws
        "linear, 20 features": (linear, linear, 400_000),
        "linear, as a function": (linear.forward, linear, 400_000),
        "random forest of 20 trees": (forest, forest, 40_000),
    }
    print("\n| model | plain loop, us/draw | ours, us/draw | ratio | loop, draws/s | ours, draws/s |")
    print("|---|---|---|---|---|---|")
    one, threads = torch.from_numpy(x[0]), torch.get_num_threads()
    for name, (ours, theirs, draws) in models.items():
        g, found = Smoothed(ours, TABULAR_CLASSES, sc.Gaussian(SPREAD), input_shape=(FEATURES,)), []
        g.certify(one, sc.Fixed(n=1000))
        for _ in range(repeats):
            torch.set_num_threads(1)
            begin, own = time.perf_counter(), time.process_time()
            plain_loop(theirs, one, draws)
            loop = time.process_time() - own, time.perf_counter() - begin
            torch.set_num_threads(threads)
            begin, own = time.perf_counter(), time.process_time()
            g.certify(one, sc.Fixed(n=draws))
            found.append((*loop, time.process_time() - own, time.perf_counter() - begin))
        a, a_wall, b, b_wall = (1e6 / draws * median(column) for column in zip(*found, strict=True))
        ratio = median(row[2] / row[0] for row in found)
        print(f"| {name} | {a:.3f} | {b:.3f} | {ratio:.2f} | {1e6 / a_wall:.0f} | {1e6 / b_wall:.0f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--model", choices=NETWORKS, nargs="*", default=NETWORKS, help="none: no predictions")
    parser.add_argument("--skip", choices=BACKENDS, nargs="+", default=(), help="backends that are not measured")
    arguments = parser.parse_args()
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"{torch.get_num_threads()} cores, {capability}, torch {torch.__version__}\n", flush=True)
    predictions(arguments.repeats, arguments.model, arguments.skip)
    certificates(arguments.inputs, max(1, arguments.repeats // 3))
    cheap_models(arguments.repeats)
