"""How much of the bare engine a server gives, and how fast it answers: python benchmarks/service.py

On loopback, bounded. 1 to 64 clients ask one after the other about images that nobody asked about before; printed are
draws per second against `Smoothed.certify` on as many images, how full batches are, latencies, and the memory of the
process over time. Both sides use the processor time and the memory of this process: clients are counted, too.
"""

from __future__ import annotations

import argparse
import queue
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import torch
from PIL import Image

from smoothcert.engine import Smoothed
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Procedure, Sequential
from smoothcert.service.limits import Limits
from smoothcert.service.serve import Door, serve

SHAPE = (1, 28, 28)
NOISE = Gaussian(0.25, grid=1 / 255)
MEMORY = "process_resident_memory_bytes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    parser.add_argument("--arch", default="lenet")
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--radius", type=float, default=None, help="sequential, instead of fixed")
    parser.add_argument("--answers-per-key", type=int, default=10**7, help="what a key answered is kept until the next")
    options = parser.parse_args()
    procedure: Procedure = Fixed(n=options.n)
    if options.radius is not None:
        procedure = Sequential(radius=options.radius, n=options.n)
    with tempfile.TemporaryDirectory() as folder:
        spec = Architecture(options.arch, 10, SHAPE)
        model = Path(folder) / "net.safetensors"
        save(model, build(spec, seed=0), spec, {"noise": NOISE.describe()})
        bare = bare_rate(spec, procedure, min(options.seconds, 20.0))
        print(f"bare engine: {bare:.0f} draws/s, {torch.get_num_threads()} threads")
        started: queue.Queue[tuple[str, object]] = queue.Queue()
        thread = threading.Thread(
            target=serve, args=(model,),
            kwargs={
                "procedure": procedure, "out": Path(folder) / "out", "door": Door(port=0), "say": lambda _: None,
                "limits": Limits(rate=1e9, answers_per_key=options.answers_per_key), "log": lambda _: None,
                "on_start": lambda *found: started.put(found),
            },
        )  # fmt: skip
        thread.start()
        url, stop = started.get()
        load(url, 2, 2.0, seed=0)  # warm
        print("clients  answers/s  draws/s  of bare  batch fill  p50 ms  p99 ms")
        for clients in options.clients:
            with watched_memory(url, options.seconds / 10) as found:
                measure(url, clients, options.seconds, bare)
            print(f"         memory, MB: {' '.join(f'{one / 2**20:.0f}' for one in found)}", flush=True)
        stop()  # type: ignore[operator]
        thread.join()


@contextmanager
def watched_memory(url: str, seconds: float) -> Iterator[list[float]]:
    """Bytes that the process holds: at the beginning, every so many seconds, and at the end."""
    found, over = [number(url, MEMORY)], threading.Event()

    def watch() -> None:
        while not over.wait(seconds):
            found.append(number(url, MEMORY))

    thread = threading.Thread(target=watch)
    thread.start()
    yield found
    over.set()
    thread.join()
    found.append(number(url, MEMORY))


def bare_rate(spec: Architecture, procedure: Procedure, seconds: float) -> float:
    """Draws per second of the library, with as many images as it likes at once."""
    g = Smoothed(build(spec, seed=0), 10, NOISE, input_shape=SHAPE)
    g.certify(images(8, 1), procedure)
    begun, draws, seed = time.perf_counter(), 0, 2
    while time.perf_counter() - begun < seconds:
        draws += sum(one.draws for one in g.certify(images(32, seed), procedure))
        seed += 1
    return draws / (time.perf_counter() - begun)


def images(count: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(levels(count, seed).astype(np.float32) / np.float32(255))


def levels(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *SHAPE), dtype=np.uint8)


def measure(url: str, clients: int, seconds: float, bare: float) -> None:
    names = ("smoothcert_draws_total", "smoothcert_batch_fill_sum", "smoothcert_batch_fill_count")
    before = [number(url, name) for name in names]
    begun = time.perf_counter()
    latencies = load(url, clients, seconds, seed=1 + clients)
    took = time.perf_counter() - begun
    draws, fill, batches = (number(url, name) - then for name, then in zip(names, before, strict=True))
    latencies.sort()
    tail = latencies[min(len(latencies) - 1, int(0.99 * len(latencies)))]
    print(
        f"{clients:7d}  {len(latencies) / took:9.1f}  {draws / took:7.0f}  {draws / took / bare:7.1%}  "
        f"{fill / max(1, batches):10.1%}  {1e3 * statistics.median(latencies):6.0f}  {1e3 * tail:6.0f}"
    )


def load(url: str, clients: int, seconds: float, seed: int) -> list[float]:
    """Latencies of all requests that clients make, one after the other each, until the time is over."""
    found: list[float] = []
    end = time.perf_counter() + seconds

    def client(number: int) -> None:
        random = np.random.default_rng([seed, number])
        with httpx.Client(base_url=url, timeout=120) as session:
            while time.perf_counter() < end:
                with BytesIO() as file:
                    Image.fromarray(random.integers(0, 256, SHAPE[1:], dtype=np.uint8)).save(file, "PPM")
                    body = file.getvalue()
                begun = time.perf_counter()
                session.post("/certify", content=body).raise_for_status()
                found.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def number(url: str, name: str) -> float:
    text = httpx.get(f"{url}/metrics").text
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


if __name__ == "__main__":
    main()
