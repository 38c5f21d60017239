"""The demonstration: a LeNet trained under noise on packaged digits, and certified in two ways."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from smoothcert import datasets, models
from smoothcert.datasets import Subset
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Procedure, Sequential
from smoothcert.training import Epoch, train
from smoothcert.training.objectives import Gaussian as GaussianObjective
from smoothcert.workflows.certify import certify
from smoothcert.workflows.observer import SILENT, Observer, task
from smoothcert.workflows.run import Run
from smoothcert.workflows.sources import find_device

DATA = "mnist5k"


@dataclass(frozen=True)
class Demo:
    """Where the parts of the demonstration lie, and how each is made; what is there already is not made again."""

    out: Path
    sigma: float = 0.5
    epochs: int = 10
    limit: int = 100
    n: int = 10_000
    seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        Subset(limit=self.limit), Fixed(n=self.n), Gaussian(self.sigma)  # what they refuse is refused before training

    @property
    def model(self) -> Path:
        """The checkpoint."""
        return self.out / f"lenet-sigma{self.sigma:g}-{self.epochs}epochs-seed{self.seed}.safetensors"

    def train(self, observer: Observer = SILENT) -> None:
        """Train the model on the 4000 training images."""
        device, data = find_device(self.device), datasets.load(DATA, "train")
        architecture = models.Architecture(name="lenet", num_classes=10, input_shape=(1, 28, 28))
        model = models.build(architecture, seed=self.seed).to(device)
        noise = Gaussian(sigma=self.sigma)
        x, y = data.tensors(range(len(data))), torch.from_numpy(data.labels.copy())
        objective = GaussianObjective(noise)
        with task(observer, "train") as under_way:

            def on_epoch(epoch: Epoch) -> None:
                under_way.reach(under_way.done, note=str(epoch))

            train(
                model, (x, y), objective, epochs=self.epochs, seed=self.seed, on_epoch=on_epoch, on_step=under_way.reach
            )
        details: dict[str, Any] = {
            "objective": objective.describe(),
            "noise": noise.describe(),
            "data": {"name": data.name, "split": data.split, "size": len(data), "fingerprint": data.fingerprint},
            "epochs": self.epochs,
            "seed": self.seed,
        }
        self.out.mkdir(parents=True, exist_ok=True)
        models.save(self.model, model, architecture, details)

    def certify(self, observer: Observer = SILENT) -> Run:
        """The largest radius of every image, with n draws."""
        return self._certify("fixed", Fixed(n=self.n), observer)

    def decide(self, observer: Observer = SILENT) -> Run:
        """Two given radii, with as few draws as possible."""
        return self._certify("sequential", Sequential(radius=[self.sigma, 2 * self.sigma], n=self.n), observer)

    def first_image(self) -> Path:
        """The first test image as a file, for `predict`."""
        path = self.out / "digit.png"
        Image.fromarray(datasets.load(DATA, "test").inputs[0, 0]).save(path)
        return path

    def next_steps(self) -> dict[str, str]:
        """Commands to try next, each with what it is for."""
        run, quick = self._folder("fixed"), self._folder("sequential")
        radii = f"{self.sigma:g},{2 * self.sigma:g}"
        steps = {
            f"predict --model {self.model} --input {self.first_image()}": "one answer",
            f"verify {run} --model {self.model} --share 0.1": "an audit: claims from votes, votes from the model",
            f"attack --run {run} --model {self.model} --limit 20": "try to refute the certificates",
            f"analyze {run} {quick} --radii {radii} --json": "the table for a program",
            f"certify --model {self.model} --data {DATA} --every 11 --out {run.parent}/n100000": "Cohen's n = 100000",
        }
        return {f"{_command()} {arguments}": why for arguments, why in steps.items()}

    def _folder(self, name: str) -> Path:
        return self.out / self.model.stem / f"{name}-n{self.n}-{self.limit}images"

    def _certify(self, name: str, procedure: Procedure, observer: Observer) -> Run:
        return certify(
            self.model,
            DATA,
            noise=Gaussian(sigma=self.sigma, grid=1 / 255),
            procedure=procedure,
            out=self._folder(name),
            seed=self.seed,
            subset=Subset(limit=self.limit),
            device=self.device,
            observer=observer,
        )


def _command() -> str:
    """How to call the program from here: it may live in a virtual environment that is not active."""
    if shutil.which("smoothcert"):
        return "smoothcert"
    return os.path.relpath(Path(sys.executable).parent / "smoothcert")
