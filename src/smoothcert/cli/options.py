"""Options that several commands share, each declared once, and what their texts become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from smoothcert.datasets import ReadOptions

NOISE, DATA, RUNNING, PROCEDURE = "Noise", "Data", "How it runs", "Procedure"  # panels of the help


def option(text: str, *names: str, panel: str | None = None) -> Any:
    """An option with its help; its name is that of its parameter unless given."""
    return typer.Option(*names, help=text, rich_help_panel=panel)


Model = Annotated[
    list[Path],
    option(
        "net.safetensors, ensemble.json, net.onnx, a TorchScript or torch.export file, checkpoint.pth.tar, a Hugging "
        "Face folder, my_models.py:net or package.module:net (code that is run); several of them vote softly. With "
        "--router STRENGTH=MODEL, as in 0.25=net.safetensors.",
        "--model",
    ),
]
NoiseName = Annotated[str, option("{noises}; each has its norm, gaussian l2 or linf.", panel=NOISE)]
Strength = Annotated[
    float | None,
    option(
        "Strength of the noise: sigma, half width, scale or keep probability. Default: as the model was trained.",
        "--sigma",
        "--strength",
        panel=NOISE,
    ),
]
Norm = Annotated[str | None, option("linf: state the radii of Gaussian noise in l_inf.", panel=NOISE)]
Values = Annotated[int | None, option("Number of pixel levels, for ablation noise.", panel=NOISE)]
Grid = Annotated[
    str,
    option(
        "Levels of exact sampling, such as 255, or off: float32, whose rounding an adversarial model can see. "
        "auto: 255 for 8-bit images with gaussian or uniform noise, else off.",
        panel=NOISE,
    ),
]
Seed = Annotated[int, option("Certificates are a function of the seed, the input and the model.")]
Alpha = Annotated[float, option("Allowed probability of a false answer.")]
BatchSize = Annotated[int | None, option("Rows per model call. Default: 128 or 384.", panel=RUNNING)]
Device = Annotated[str | None, option("cpu, cuda, ... Default: cuda if there is one.", panel=RUNNING)]
Workers = Annotated[int | None, option("How many run the model at once. Default: all cores, or GPUs.", panel=RUNNING)]
PoolName = Annotated[
    str, option("Where the model is run: threads, processes, or ray, a cluster.", "--pool", panel=RUNNING)
]
Address = Annotated[
    str | None, option("Of a Ray cluster: auto, HOST:PORT. Default: this machine's, or one is started.", panel=RUNNING)
]
GpusPerWorker = Annotated[
    float | None, option("Of --pool processes or ray: 0.5 lets two share a GPU. Default: 1.", panel=RUNNING)
]
Backend = Annotated[
    str,
    option(
        "How the model is run: eager, compile, onnxruntime, openvino, auto (the fastest of these, measured), or "
        "onnxruntime-int8, openvino-int8 (several times faster, noticeably another classifier).",
        panel=RUNNING,
    ),
]
Calibration = Annotated[
    str | None,
    option(
        "Data for int8, as DATA or DATA:split. Default: the run's, by its name, or the training split of --data.",
        panel=RUNNING,
    ),
]
RunData = Annotated[str | None, option("The data set that was certified. Default: the run's, by its name.", panel=DATA)]
DataRoot = Annotated[Path | None, option("Where data files lie. Default: $SMOOTHCERT_DATA, else data.", panel=DATA)]
Inputs = Annotated[
    list[Path],
    option("Inputs without labels: images, folders of images, .npy arrays; one or several.", "--input", panel=DATA),
]
Resize = Annotated[
    str | None,
    option("Resize images: 256 for the shorter side, or 320x240. Certificates are about the result.", panel=DATA),
]
Crop = Annotated[str | None, option("Then keep the centre: 224, or 320x240.", panel=DATA)]
LabelColumn = Annotated[
    str | None,
    option("Of a table: the column with the labels, or none. Default: label, class, target or y.", panel=DATA),
]
ClassNames = Annotated[
    Path | None,
    option("File with the name of each class, one per line. Default: folders, or the model, name them.", panel=DATA),
]
Split = Annotated[str, option("test or train.", panel=DATA)]
Limit = Annotated[int | None, option("At most so many inputs.", panel=DATA)]
MemoryAt = Annotated[
    str | None,
    option("Answer through certified regions that are kept: an SQLite file, or postgresql://user@host/database."),
]
AsJson = Annotated[bool, option("Print JSON for programs.", "--json")]
Radii = Annotated[str | None, option("Radii of the table, as in 0,0.25,0.5. Default: chosen.")]
Figure = Annotated[Path | None, option("Save a figure: .png, .svg or .pdf.")]


def reading(
    resize: str | None, crop: str | None, label_column: str | None = None, class_names: Path | None = None
) -> ReadOptions:
    """What is said about data that leave something open."""
    from smoothcert.datasets import Preprocessing, ReadOptions, read_class_names

    names = None if class_names is None else read_class_names(class_names)
    return ReadOptions(Preprocessing(resize, crop), label_column, names)


def one_of(data: str | None, inputs: list[Path]) -> Any:
    """The value of --data, or of --input: one of them."""
    if data is not None and inputs:
        raise InputError("--data and --input both say what the inputs are; leave one out")
    return list(inputs) if inputs else data


def numbers(text: str | None, name: str = "--radii") -> list[float] | None:
    """The value of an option that takes several numbers; None where it is not given."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} must be numbers with commas between them, as in 0,0.25,0.5, got {text!r}") from None


def assignments(texts: list[str], *kinds: str) -> dict[str, dict[str, Any]]:
    """The values of --set KIND.NAME=VALUE, by kind; a value is JSON, or a word."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for text in texts:
        name, is_there, value = text.partition("=")
        kind, _, key = name.partition(".")
        if not is_there or kind not in kinds or not key:
            raise InputError(f"--set takes {' or '.join(f'{kind}.NAME=VALUE' for kind in kinds)}, got {text!r}")
        try:
            found[kind][key] = json.loads(value)
        except (ValueError, RecursionError):
            found[kind][key] = value
    return found


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
