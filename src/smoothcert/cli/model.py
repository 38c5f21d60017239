"""`smoothcert model`: any model in, one file out, what it is, and whether raw pixels go in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothcert.cli import options as o
from smoothcert.cli.options import option
from smoothcert.cli.output import say, say_json
from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.workflows.model import ModelInfo

Source = Annotated[Path, typer.Argument(help="The model; see --model of certify.", show_default=False)]
Weights = Annotated[
    Path, typer.Argument(help="A model, or weights alone (.pth.tar, .safetensors).", show_default=False)
]
Out = Annotated[Path, option("File to write: .safetensors, or .onnx for a network that is not one of ours.")]
Graph = Annotated[Path, option("The .onnx file to write.")]
Arch = Annotated[str | None, option("The network that weights are of, as in cifar-resnet110. Default: as they say.")]
Sigma = Annotated[float | None, option("Of the Gaussian noise that it was trained under; certify then uses it.")]
Shape = Annotated[str | None, option("Of one input, as in 3,32,32. Default: as the file says.")]
Within = Annotated[
    str | None,
    option("Put a normalisation inside: cifar10, imagenet, mnist, half, 255, MEAN,STD or MEANS/STDS with commas."),
]
Half = Annotated[bool, option("Round the weights to 16 bits: half the file, and another classifier.", "--half")]
Data = Annotated[str | None, option("Labelled data, to check that the model takes raw pixels.", panel=o.DATA)]


def import_(
    source: Weights,
    out: Out,
    arch: Arch = None,
    sigma: Sigma = None,
    normalize: Within = None,
    half: Half = False,
    shape: Shape = None,
    data: Data = None,
    split: o.Split = "test",
    data_root: o.DataRoot = None,
    as_json: o.AsJson = False,
) -> None:
    """Read a model of any format, checkpoints of the papers' code included, and write one file."""
    from smoothcert.workflows import model as workflow
    from smoothcert.workflows.terminal import terminal_observer

    with terminal_observer() as observer:
        found = workflow.import_model(
            source, out, arch=arch, shape=_sizes(shape), sigma=sigma, normalize=normalize, half=half, data=data,
            split=split, data_root=data_root, observer=observer,
        )  # fmt: skip
    _say(found, as_json=as_json)
    say(f"the model is written to {out}; see: smoothcert certify --model {out}", err=True)


def info(
    source: Source,
    shape: Shape = None,
    data: Data = None,
    split: o.Split = "test",
    data_root: o.DataRoot = None,
    as_json: o.AsJson = False,
) -> None:
    """Say what a model is; with --data, whether it takes raw pixels or with which normalisation it was trained."""
    from smoothcert.workflows import model as workflow
    from smoothcert.workflows.terminal import terminal_observer

    with terminal_observer() as observer:
        found = workflow.info(
            source, data=data, split=split, data_root=data_root, shape=_sizes(shape), observer=observer
        )
    _say(found, as_json=as_json)


def export(source: Source, out: Graph, shape: Shape = None) -> None:
    """Write a model as ONNX, and check that ONNX Runtime gives the same votes."""
    from smoothcert.workflows import model as workflow
    from smoothcert.workflows.terminal import terminal_observer

    with terminal_observer() as observer:
        say(f"{out}: {workflow.export(source, out, shape=_sizes(shape), observer=observer)}")


def _say(found: ModelInfo, *, as_json: bool) -> None:
    if as_json:
        say_json(found.to_json())
    else:
        say("\n".join(found.lines))


def _sizes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise InputError(f"--shape must be whole numbers with commas between them, as in 3,32,32, got {text!r}")
    return [int(part) for part in parts]
