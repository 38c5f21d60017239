"""Options that several commands share, and what they become."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from smoothcert.errors import InputError

if TYPE_CHECKING:
    from smoothcert.architectures import Architecture, Checkpoint
    from smoothcert.noise import Noise

Model = Annotated[Path, typer.Option("--model", help="Checkpoint (.safetensors) of the classifier.")]
NoiseName = Annotated[str, typer.Option("--noise", help="gaussian (l2, linf), uniform or laplace (l1), ablation (l0).")]
Strength = Annotated[
    float | None,
    typer.Option(
        "--sigma",
        "--strength",
        help="Strength of the noise: sigma, half width, scale or keep probability. Default: as the model was trained.",
    ),
]
Norm = Annotated[str | None, typer.Option("--norm", help="linf: state the radii of Gaussian noise in l_inf.")]
Values = Annotated[int | None, typer.Option("--values", help="Number of pixel levels, for ablation noise.")]
Seed = Annotated[int, typer.Option("--seed", help="Certificates are a function of the seed, the input and the model.")]
Alpha = Annotated[float, typer.Option("--alpha", help="Allowed probability of a false answer.")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Rows per model call. Default: one block of 128.")]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, ... Default: cuda if there is one.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Threads with one core each. Default: all cores.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Radii = Annotated[str | None, typer.Option("--radii", help="Radii of the table, as in 0,0.25,0.5. Default: chosen.")]


def numbers(text: str) -> list[float]:
    """The value of --radii."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--radii must be numbers with commas between them, as in 0,0.25,0.5, got {text!r}") from None


def console() -> Console:
    """Where tables go: as wide as the terminal, or 120 columns into a file."""
    return Console(width=None if Console().is_terminal else 120, highlight=False)


def device(name: str | None) -> str:
    """The named device, if it is there; else the best there is."""
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {name!r} cannot be used here ({str(error).splitlines()[0]}); try --device cpu"
        ) from None
    return name


def noise(name: str, strength: float | None, norm: str | None, values: int | None, checkpoint: Checkpoint) -> Noise:
    """The noise that the options name; its strength is the one of training where none is given."""
    from smoothcert.noise import NOISES

    if name not in NOISES:
        raise InputError(f"--noise must be one of {', '.join(NOISES)}, got {name!r}")
    kind = NOISES[name]
    if strength is None:
        trained: dict[str, Any] = checkpoint.details.get("noise") or {}
        if trained.get("name") != name or kind.strength_name not in trained:
            raise InputError(f"give --sigma, the {kind.strength_name} of the noise: the checkpoint does not name one")
        strength = float(trained[kind.strength_name])
    options = {key: value for key, value in (("norm", norm), ("values", values)) if value is not None}
    for key in options:
        if key not in {f.name for f in fields(kind)}:
            raise InputError(f"--{key} does not go with --noise {name}; leave it out")
    return kind(**{kind.strength_name: strength}, **options)


def check_shape(shape: tuple[int, ...], architecture: Architecture, data: str) -> None:
    """Refuse inputs that the model was not made for."""
    wanted = tuple(architecture.input_shape)
    if tuple(shape) != wanted:
        raise InputError(
            f"--data {data} has inputs of shape {tuple(shape)} but the model {architecture.name} takes {wanted}; "
            "certify the data set that the model was trained for"
        )
