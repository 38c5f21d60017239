"""The demonstration: a packaged model certified in two ways, in about a minute."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from smoothcert import datasets
from smoothcert.datasets import Subset
from smoothcert.models.zoo import zoo_model
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, Procedure, Sequential
from smoothcert.workflows.certify import certify
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.run import Run

MODEL, DATA, SIGMA = "mnist-0.50", "mnist500", 0.5


@dataclass(frozen=True)
class Demo:
    """Where the parts of the demonstration lie, and how each is made; what is there already is not made again."""

    out: Path
    limit: int = 50
    n: int = 10_000
    seed: int = 0
    device: str | None = None
    command: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Subset(limit=self.limit), Fixed(n=self.n)  # what they refuse is refused before anything is done

    @property
    def about(self) -> str:
        """What the model is."""
        return str(zoo_model(MODEL).card["about"])

    def certify(self, observer: Observer = SILENT) -> Run:
        """The largest radius of every image, with n draws."""
        return self._certify("fixed", Fixed(n=self.n), observer)

    def decide(self, observer: Observer = SILENT) -> Run:
        """Two given radii, with as few draws as possible."""
        return self._certify("sequential", Sequential(radius=[SIGMA, 2 * SIGMA], n=self.n), observer)

    def first_image(self) -> Path:
        """The first test image as a file, for `predict`."""
        path = self.out / "digit.png"
        self.out.mkdir(parents=True, exist_ok=True)
        Image.fromarray(datasets.load(DATA, "test").inputs[0, 0]).save(path)
        return path

    def next_steps(self) -> dict[str, str]:
        """Commands to try next, each with what it is for."""
        run, quick = self._folder("fixed"), self._folder("sequential")
        steps = {
            f"predict --model zoo:{MODEL} --input {self.first_image()}": "one answer",
            f"verify {run} --model zoo:{MODEL} --share 0.1": "an audit: claims from votes, votes from the model",
            f"attack --run {run} --model zoo:{MODEL} --limit 20": "try to refute the certificates",
            f"analyze {run} {quick} --radii {SIGMA:g},{2 * SIGMA:g} --json": "the table for a program",
            f"certify --model zoo:{MODEL} --data {DATA} --every 10 --out {self.out}/n100000": "Cohen's n = 100000",
            f"train mnist-lenet-gaussian-0.50-fast --data mnist5k --out {self.out}/training": "train one yourself",
        }
        return {f"{_command()} {arguments}": why for arguments, why in steps.items()}

    def _folder(self, name: str) -> Path:
        return self.out / f"{name}-n{self.n}-{self.limit}images"

    def _certify(self, name: str, procedure: Procedure, observer: Observer) -> Run:
        return certify(
            zoo_model(MODEL).file,
            DATA,
            noise=Gaussian(sigma=SIGMA, grid=1 / 255),
            procedure=procedure,
            out=self._folder(name),
            seed=self.seed,
            subset=Subset(limit=self.limit),
            device=self.device,
            command=self.command,
            observer=observer,
        )


def _command() -> str:
    """How to call the program from here: it may live in a virtual environment that is not active."""
    if shutil.which("smoothcert"):
        return "smoothcert"
    return os.path.relpath(Path(sys.executable).parent / "smoothcert")
