"""A real server in a thread of the tests: a small network, a port of its own, a folder of its own."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

from smoothcert.core.secret import SecretKey
from smoothcert.engine import Smoothed, Threads
from smoothcert.models import Architecture, build, save
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Procedure, Sequential
from smoothcert.service.limits import Limits
from smoothcert.service.serve import Door, serve

SHAPE = (1, 8, 8)
NOISE = Gaussian(0.25, grid=1 / 255)
SPEC = Architecture("lenet", 10, SHAPE)
PROCEDURE = Sequential(radius=0.1, n=2_000)


def checkpoint(folder: Path) -> Path:
    """Untrained: its votes are divided, and that is all that is wanted of it."""
    save(folder / "net.safetensors", build(SPEC, seed=0), SPEC, {"noise": NOISE.describe()})
    return folder / "net.safetensors"


def images(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (count, *SHAPE), dtype=np.uint8)


def tensors(levels: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(levels.astype(np.float32) / np.float32(255))


def png(levels: np.ndarray[Any, Any]) -> bytes:
    with BytesIO() as file:
        Image.fromarray(levels[0]).save(file, "PNG")
        return file.getvalue()


@dataclass
class Served:
    """A server that runs."""

    url: str
    out: Path
    model: Any
    said: list[str]
    log: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)  # as whoever asks notes them

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **options)

    def key(self, hashed: str) -> SecretKey:
        """What nobody but the owner of the folder can read."""
        keys = (SecretKey.from_hex(file.read_text().strip()) for file in (self.out / "secrets").iterdir())
        return next(key for key in keys if key.hash == hashed)

    def library(self, x: torch.Tensor, procedure: Procedure, hashed: str) -> list[Certificate]:
        """What the library says with the same seed."""
        seed = self.key(hashed).seed(procedure.describe())
        return Smoothed(build(SPEC, seed=0), 10, NOISE, seed, input_shape=SHAPE).certify(x, procedure)

    def lines(self) -> list[dict[str, Any]]:
        files = sorted(self.out.glob("*/records.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@contextmanager
def serving(
    folder: Path, *, limits: Limits | None = None, door: Door | None = None, **options: Any
) -> Iterator[Served]:
    """A server from here to the end of the block."""
    started: queue.Queue[Any] = queue.Queue()
    served = Served("", folder / "served", options.pop("model", None) or checkpoint(folder), [])
    options = {"procedure": PROCEDURE, "out": served.out, "pool": Threads(1)} | options

    def run() -> None:
        try:
            serve(
                served.model, door=door or Door(port=0), limits=limits or Limits(rate=1e6), say=served.said.append,
                log=lambda event: served.log.append(dict(event)), on_start=lambda *found: started.put(found), **options,
            )  # fmt: skip
        except BaseException as error:
            started.put(error)

    thread = threading.Thread(target=run)
    thread.start()
    found = started.get(timeout=120)
    if isinstance(found, BaseException):
        thread.join()
        raise found
    served.url = found[0]
    try:
        yield served
    finally:
        found[1]()
        thread.join(60)
        assert not thread.is_alive()
