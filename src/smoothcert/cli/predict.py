"""`smoothcert predict`: the smoothed classifier's answer to an image or an array."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def predict(
    model: o.Model,
    input_: Annotated[list[Path], typer.Option("--input", help="An image, or an .npy array of one or more inputs.")],
    sigma: o.Strength = None,
    noise: o.NoiseName = "gaussian",
    values: o.Values = None,
    n: Annotated[int, typer.Option(help="Draws per input.")] = 1_000,
    alpha: o.Alpha = 0.001,
    seed: o.Seed = 0,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    workers: o.Workers = None,
    as_json: o.AsJson = False,
) -> None:
    """Answer with the smoothed classifier, or abstain where two classes are too close."""
    import torch

    from smoothcert import architectures
    from smoothcert.certify import Predict
    from smoothcert.engine import Smoothed

    procedure = Predict(n=n, alpha=alpha)
    checkpoint = architectures.load(model, o.device(device))
    shape = tuple(checkpoint.architecture.input_shape)
    inputs = [(path, x) for path in input_ for x in _read(path, shape)]
    smoothed = Smoothed(
        checkpoint.model,
        num_classes=checkpoint.architecture.num_classes,
        noise=o.noise(noise, sigma, None, values, checkpoint),
        seed=seed,
        batch_size=batch_size,
        workers=workers,
        input_range=(0, 1),
        input_shape=shape,
    )
    names = checkpoint.details.get("class_names") or [str(c) for c in range(checkpoint.architecture.num_classes)]
    predictions = smoothed.predict(torch.stack([x for _, x in inputs]), procedure)
    for (path, _), prediction in zip(inputs, predictions, strict=True):
        if as_json:
            typer.echo(json.dumps({"input": str(path), **prediction.to_json()}))
        else:
            answer = "abstains" if prediction.abstained else names[prediction.label]
            typer.echo(f"{path}: {answer} ({prediction.reason})")


def _read(path: Path, shape: tuple[int, ...]) -> Tensor:
    """Inputs of an image or an .npy file, (B, *shape), as float32 in [0, 1]."""
    import numpy as np
    import torch
    from PIL import Image

    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        else:
            with Image.open(path) as image:
                array = np.asarray(image.convert("L" if shape[0] == 1 else "RGB"))
                array = array[None] if shape[0] == 1 else array.transpose(2, 0, 1)  # (C, H, W)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise InputError(f"--input {path} cannot be read as an image or an .npy array ({error})") from None
    if array.dtype == np.uint8:
        array = array.astype(np.float32) / 255
    batch = array[None] if array.ndim == len(shape) else array
    if batch.ndim != len(shape) + 1 or batch.shape[1:] != shape or batch.dtype.kind != "f" or not len(batch):
        raise InputError(
            f"--input {path} must hold inputs of shape {shape}, uint8 or float, got {array.dtype} {array.shape}"
        )
    return torch.from_numpy(np.ascontiguousarray(batch, dtype=np.float32))
