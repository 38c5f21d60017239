"""`smoothcert demo`: from nothing to certificates in a few minutes, on data that comes inside a package."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli.analyze import analyze
from smoothcert.cli.certify import certify
from smoothcert.cli.progress import bar
from smoothcert.cli.report import report

if TYPE_CHECKING:
    from smoothcert.training import Epoch


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the model, the runs, the figure and the report.")] = Path(
        "demo"
    ),
    sigma: Annotated[float, typer.Option(help="Noise of training and certification.")] = 0.5,
    epochs: Annotated[int, typer.Option(help="Epochs of training.")] = 10,
    limit: Annotated[int, typer.Option(help="Test images to certify.")] = 100,
    n: Annotated[int, typer.Option(help="Draws per image.")] = 10_000,
    seed: o.Seed = 0,
    device: o.Device = None,
) -> None:
    """Train a LeNet under noise on 4000 MNIST images, certify test images; table, curve and report."""
    from smoothcert.datasets import Subset
    from smoothcert.noise import Gaussian
    from smoothcert.procedures import Fixed

    Subset(limit=limit), Fixed(n=n), Gaussian(sigma)  # what they refuse is refused before training
    model = out / f"lenet-sigma{sigma:g}-{epochs}epochs-seed{seed}.safetensors"
    runs = out / model.stem
    run, quick = (runs / f"{procedure}-n{n}-{limit}images" for procedure in ("fixed", "sequential"))
    figure = out / "radius-accuracy.png"
    if model.exists():
        typer.echo(f"1. The model is there: {model}")
    else:
        typer.echo(f"1. Training LeNet on 4000 MNIST images with Gaussian noise, sigma {sigma:g}, {epochs} epochs")
        _train(model, sigma, epochs, seed, o.device(device))
    typer.echo(f"2. Certifying {limit} test images with {n} draws each, 99.9% confidence")
    certify(model=[model], data="mnist5k", out=run, sigma=sigma, n=n, limit=limit, seed=seed, device=device)
    typer.echo("3. The same images at two given radii, with as few draws as possible")
    certify(
        model=[model],
        data="mnist5k",
        out=quick,
        sigma=sigma,
        procedure="sequential",
        radius=[sigma, 2 * sigma],
        n=n,
        limit=limit,
        seed=seed,
        device=device,
    )
    typer.echo("4. What is proved")
    analyze([run, quick], figure=figure)
    typer.echo("\n5. The page: curves, classes, and every image with its votes")
    report([run, quick], out=out / "report.html")
    image, smoothcert = _first_image(out), _command()
    steps = {
        f"predict --model {model} --input {image}": "one answer",
        f"verify {run} --model {model} --share 0.1": "an audit: claims from votes, votes from the model",
        f"attack --run {run} --model {model} --limit 20": "try to refute the certificates",
        f"analyze {run} {quick} --radii {sigma:g},{2 * sigma:g} --json": "the table for a program",
        f"certify --model {model} --data mnist5k --every 11 --out {runs}/n100000": "Cohen's n = 100000",
    }
    typer.echo("\nNext:")
    for arguments, why in steps.items():
        typer.echo(f"  {smoothcert} {arguments}    # {why}")
    typer.echo("Your own model: see examples/resnet20.py and examples/sklearn_table.py")


def _command() -> str:
    """How to call this program from here: it may live in a virtual environment that is not active."""
    if shutil.which("smoothcert"):
        return "smoothcert"
    return os.path.relpath(Path(sys.executable).parent / "smoothcert")


def _train(path: Path, sigma: float, epochs: int, seed: int, device: str) -> None:
    import torch

    from smoothcert import datasets, models
    from smoothcert.noise import Gaussian
    from smoothcert.training import train
    from smoothcert.training.objectives import Gaussian as GaussianObjective

    data = datasets.load("mnist5k", "train")
    architecture = models.Architecture(name="lenet", num_classes=10, input_shape=(1, 28, 28))
    model = models.build(architecture, seed=seed).to(device)
    noise = Gaussian(sigma=sigma)
    with bar("loss {task.fields[loss]:.3f}") as progress:
        task = progress.add_task("train", total=None, loss=float("nan"))

        def on_epoch(epoch: Epoch) -> None:
            progress.update(task, loss=epoch.loss)

        def on_step(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        x, y = data.tensors(range(len(data))), torch.from_numpy(data.labels.copy())
        objective = GaussianObjective(noise)
        train(model, (x, y), objective, epochs=epochs, seed=seed, on_epoch=on_epoch, on_step=on_step)
    details: dict[str, Any] = {
        "objective": objective.describe(),
        "noise": noise.describe(),
        "data": {"name": data.name, "split": data.split, "size": len(data), "fingerprint": data.fingerprint},
        "epochs": epochs,
        "seed": seed,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    models.save(path, model, architecture, details)


def _first_image(out: Path) -> Path:
    """The first test image as a file, for `predict`."""
    from PIL import Image

    from smoothcert import datasets

    path = out / "digit.png"
    Image.fromarray(datasets.load("mnist5k", "test").inputs[0, 0]).save(path)
    return path
