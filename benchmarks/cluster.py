"""Pools beside one thread, and how far the driver of a cluster reaches: python benchmarks/cluster.py [PART ...]

throughput  draws/s of 1, 2, 4 workers (processes, Ray) against one thread, and of the bare forward pass on ready noise.
            With fewer cores than workers only what is lost can be seen, not what is won.
overhead    one call at a time of a work that does nothing: the round trip, and what the size of an input adds to it,
            which is what reading data sets in the workers could save.
simulated   a model that only sleeps, for a given time per call, on up to 64 actors: everything but the model is real
            (conversations, batches, transport, counting), so efficiency below 1 is the driver. A machine needs no more
            cores for it, but about 0.2 GB for each actor.
imagenet    what 50 000 images cost on 1, 8 and 64 GPUs: a calculation from stated rates, nothing is run.

Needs `pip install 'smoothcert[ray]'` but for `imagenet`. Sets RAY_worker_niceness=0: Ray's workers give way to others.
"""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

import smoothcert as sc
from smoothcert.core.model import Model
from smoothcert.engine import Compiled, Pool
from smoothcert.engine.pools import Session, crew_session
from smoothcert.models import Architecture, build

PARTS = ("throughput", "overhead", "simulated", "imagenet")
NOISE = sc.Gaussian(0.25)


@dataclass(frozen=True, eq=False)
class BareCall:
    """A full call of the model on ready noise, some times over."""

    x: Tensor
    times: int

    @torch.inference_mode()
    def run(self, compiled: Compiled, runner: Model) -> None:
        """Run it."""
        for _ in range(self.times):
            runner(self.x.clone())


@dataclass(frozen=True, eq=False)
class Nothing:
    """A work that carries an input and does nothing."""

    x: Tensor

    def run(self, compiled: Compiled, runner: Model) -> int:
        """Return."""
        return len(self.x)


@dataclass(frozen=True)
class Sleeping:
    """A model of which every call takes `seconds`, and no processor."""

    seconds: float
    fingerprint = "sleeping"  # so that it is not looked at again whether it is a fixed function

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, 2): the inputs themselves."""
        time.sleep(self.seconds)
        return x[:, :2].clone()


@contextmanager
def all_workers(pool: Pool, compiled: Compiled, count: int) -> Iterator[Session]:
    """A session, when as many workers are there as were asked for."""
    with pool.open(compiled) as session:
        while session.workers < count:
            time.sleep(0.05)
        yield session


def throughput(options: argparse.Namespace) -> None:
    shape = (1, 28, 28) if options.model.startswith("lenet") else (3, 32, 32)
    model, x = build(Architecture(options.model, 10, shape), seed=0).eval(), torch.rand(4, *shape)
    pools: dict[str, tuple[Pool, int]] = {"1 thread": (sc.Threads(1), 1)}
    pools |= {f"{n} processes": (sc.Processes(n), n) for n in options.workers}
    pools |= {f"{n} Ray workers": (sc.Ray(workers=n), n) for n in options.workers}
    rows, base = [], 0.0
    for name, (pool, count) in pools.items():
        g = sc.Smoothed(model, 10, NOISE, pool=pool)
        begin = time.perf_counter()
        compiled = g.compile(shape)
        with all_workers(pool, compiled, count) as session:
            start = time.perf_counter() - begin
            batch = torch.rand(compiled.rows, *shape)
            session.map([BareCall(batch, 1) for _ in range(count)])
            bare, whole = list[float](), list[float]()
            for _ in range(options.repeats):  # side by side, because the machine may be busy
                begin = time.perf_counter()
                session.map([BareCall(batch, options.draws // compiled.rows // 4) for _ in range(count)])
                bare.append(
                    count * (options.draws // compiled.rows // 4) * compiled.rows / (time.perf_counter() - begin)
                )
                begin = time.perf_counter()
                g.certify(x, sc.Fixed(n0=100, n=options.draws * count // 4))
                whole.append(4 * (options.draws * count // 4 + 100) / (time.perf_counter() - begin))
        crew_session.close_all()
        base = base or median(whole)
        share = median(w / b for w, b in zip(whole, bare, strict=True))
        rows.append((name, median(whole), median(whole) / base, median(bare), share, start))
    print(f"\n{options.model}, {os.cpu_count()} cores\n")
    print("| | draws/s | against one thread | bare | of the bare pass | start, s |\n|---|---|---|---|---|---|")
    for name, whole_rate, against, bare_rate, share, start in rows:
        print(f"| {name} | {whole_rate:.0f} | {against:.2f} | {bare_rate:.0f} | {share:.0%} | {start:.1f} |")


def overhead(options: argparse.Namespace) -> None:
    compiled = sc.Smoothed(torch.nn.Linear(4, 2), 2, NOISE).compile((4,))
    print("\n| one call at a time | input | median, ms | 90%, ms |\n|---|---|---|---|")
    for name, pool in (("process", sc.Processes(1)), ("Ray", sc.Ray(workers=1))):
        with all_workers(pool, compiled, 1) as session:
            for shape in ((4,), (3, 32, 32), (3, 224, 224)):
                work, times = Nothing(torch.rand(shape)), list[float]()
                for _ in range(options.calls):
                    begin = time.perf_counter()
                    session.map([work])
                    times.append(1000 * (time.perf_counter() - begin))
                times.sort()
                size = f"{4 * work.x.numel() / 1000:.1f} kB"
                print(f"| {name} | {size} | {median(times):.2f} | {times[int(0.9 * len(times))]:.2f} |")
        crew_session.close_all()


def simulated(options: argparse.Namespace) -> None:
    print(f"\ncalls of {1000 * options.latency:.0f} ms, {options.rounds} per actor")
    print("\n| actors | calls/s | efficiency | driver's processor time per call, ms |\n|---|---|---|---|")
    for count in options.actors:
        pool = sc.Ray(workers=count)
        # One call has 128 rows; few numbers, because noise is drawn in the actors, and they share these cores.
        g = sc.Smoothed(Sleeping(options.latency), 2, NOISE, pool=pool, batch_size=128)
        x = torch.rand(8, 4)
        calls = count * options.rounds
        with all_workers(pool, g.compile((4,)), count):
            g.certify(x, sc.Fixed(n0=128, n=128))  # what is looked at once, and takes some calls one after another
            begin, processor = time.perf_counter(), time.process_time()
            g.certify(x, sc.Fixed(n0=128, n=128 * (calls // len(x) - 1)))
            seconds, processor = time.perf_counter() - begin, time.process_time() - processor
        done = len(x) * (calls // len(x))
        ideal = done * options.latency / count
        print(f"| {count} | {done / seconds:.0f} | {ideal / seconds:.1%} | {1000 * processor / done:.2f} |", flush=True)
    crew_session.close_all()


def imagenet(options: argparse.Namespace) -> None:
    """Images / GPUs * draws per image / (draws per second and GPU * efficiency)."""
    print(f"\n{options.images} images, {options.rate:.0f} draws/s on each GPU, efficiency {options.efficiency:.0%}\n")
    print("| | draws/image | 1 GPU | 8 GPUs | 64 GPUs | GPU hours |\n|---|---|---|---|---|---|")
    for name, draws in (("Fixed, n = 100 000", 100_100), *((f"Sequential, {n} sigma", d + 100) for n, d in SEQUENTIAL)):
        hours = [options.images * draws / (options.rate * options.efficiency * gpus) / 3600 for gpus in (1, 8, 64)]
        print(f"| {name} | {draws} | {' | '.join(map(in_words, hours))} | {hours[0]:.0f} |")


SEQUENTIAL = (("r = 1", 1649), ("r = 2", 1713), ("r = 3", 5922))
"""Expected draws of Sequential for Cohen's ImageNet log, sigma 0.25: benchmarks/draws.py --log (exact, no sampling)."""


def in_words(hours: float) -> str:
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--model", default="cifar-resnet20")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--draws", type=int, default=20_000, help="of a round of throughput, for each worker")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--calls", type=int, default=300, help="of overhead")
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 4, 16, 64], help="of simulated")
    parser.add_argument("--latency", type=float, default=0.1, help="seconds of a simulated call")
    parser.add_argument("--rounds", type=int, default=50, help="simulated calls for each actor")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=100_100 / 150.18, help="draws/s of one GPU; default: Cohen's log")
    parser.add_argument("--efficiency", type=float, default=0.9)
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    parts: dict[str, Any] = {
        "throughput": throughput,
        "overhead": overhead,
        "simulated": simulated,
        "imagenet": imagenet,
    }
    chosen = options.parts or PARTS
    if set(chosen) - {"imagenet"}:
        os.environ.setdefault("RAY_worker_niceness", "0")
        import ray  # noqa: PLC0415

        most = max(options.workers + (options.actors if "simulated" in chosen else []))
        ray.init("local", num_cpus=most, log_to_driver=False, logging_level="error", include_dashboard=False)
    for part in chosen:
        parts[part](options)


if __name__ == "__main__":
    main()
