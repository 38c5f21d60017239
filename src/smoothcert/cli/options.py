"""Options that several commands share, and what they become."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.datasets import Dataset
    from smoothcert.engine import SigmaSearch
    from smoothcert.memory import Memory
    from smoothcert.models import Architecture, Checkpoint
    from smoothcert.noise import Noise
    from smoothcert.procedures import Procedure
    from smoothcert.runs import Run

Model = Annotated[
    list[Path],
    typer.Option("--model", help="Checkpoint (.safetensors) or ensemble (.json); several of them vote softly."),
]
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
Grid = Annotated[
    str,
    typer.Option(
        "--grid",
        help="Levels of exact sampling, such as 255, or off: float32, whose rounding an adversarial model can see. "
        "auto: 255 for 8-bit images with gaussian or uniform noise, else off.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Certificates are a function of the seed, the input and the model.")]
Alpha = Annotated[float, typer.Option("--alpha", help="Allowed probability of a false answer.")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Rows per model call. Default: 128 or 384.")]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, ... Default: cuda if there is one.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Threads with one core each. Default: all cores.")]
Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        help="How the model is run: eager, compile, onnxruntime, openvino, auto (the fastest of these, measured), or "
        "onnxruntime-int8, openvino-int8 (several times faster, noticeably another classifier).",
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        help="Data for int8, as DATA or DATA:split. Default: the run's, by its name, or the training split of --data.",
    ),
]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Where data files lie. Default: $SMOOTHCERT_DATA, else data.")
]
MemoryAt = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="Answer through certified regions that are kept: an SQLite file, or postgresql://user@host/database.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Radii = Annotated[str | None, typer.Option("--radii", help="Radii of the table, as in 0,0.25,0.5. Default: chosen.")]

CALIBRATION_INPUTS = 512


def numbers(text: str, option: str = "--radii") -> list[float]:
    """The value of an option that takes several numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers with commas between them, as in 0,0.25,0.5, got {text!r}") from None


def memory(where: str | None, *, there: bool = False) -> Memory | None:
    """The memory of --memory; with `there`, refused if nobody made it yet."""
    from smoothcert.memory import Memory

    if where is None:
        return None
    opened = Memory(where)
    if there and opened.owner is None:
        raise InputError(f"memory {opened.name} does not exist; make one by smoothcert certify --memory")
    return opened


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


def run_data(run: Run, given: str | None, root: Path | None) -> Dataset:
    """The data that a run certified: those given, else those of that name; others are refused."""
    from smoothcert import datasets
    from smoothcert.audit.rebuild import refuse_other_data

    about = run.config.data
    name = given or about.name
    if given is None and name not in datasets.names():
        raise InputError(f"the data of {run.path}, {name!r}, are not known by name; give --data PATH")
    dataset = _load(name, about.split, root, "--data" if given is None else None)
    refuse_other_data(run, dataset)
    return dataset


def _load(name: str, split: str, root: Path | None, instead: str | None) -> Dataset:
    """Data; where they were not named by the user, the refusal says with which option they can be."""
    from smoothcert import datasets

    try:
        return datasets.load(name, split, root=root)
    except InputError as error:
        if instead is None:
            raise
        raise InputError(f"{error}; or give {instead} PATH") from None


def calibration(
    backend: str, given: str | None, data: str | None, root: Path | None
) -> tuple[Tensor | None, str | None]:
    """Training inputs for an int8 backend, and their name for the run: of --calibration, else of --data.

    The name is for readers, without a folder: which inputs they were is said by the digest in the classifier.
    """
    from smoothcert import datasets
    from smoothcert.engine.backends import BACKENDS

    if backend not in BACKENDS or not BACKENDS[backend].int8:
        if given is not None:
            raise InputError(f"--calibration goes with an int8 backend, and --backend is {backend}; leave it out")
        return None, None
    name, _, split = (given or data or "").rpartition(":")
    if split not in datasets.SPLITS:
        name, split = given or data or "", "train"
    if not name:
        raise InputError(f"--backend {backend} needs --calibration, the data that the model was trained on")
    inputs = _load(name, split, root, "--calibration" if given is None else None)
    every = max(1, len(inputs) // CALIBRATION_INPUTS)
    chosen = datasets.Subset(every=every, limit=CALIBRATION_INPUTS).indices(len(inputs))
    return inputs.tensors(chosen), f"{inputs.name}:{split}"


def run_calibration(run: Run, given: str | None, data: str | None, root: Path | None) -> Tensor | None:
    """The calibration inputs of a run's int8 backend: those given, else those it names, where `data` may be found."""
    named = run.config.model.calibration
    name, _, split = str(named).rpartition(":")
    if data is not None and name == run.config.data.name:
        named = f"{data}:{split}"
    return calibration(str(run.config.backend), given, named, root)[0]


def resumed(earlier: Run | None, backend: str, batch_size: int | None) -> tuple[str, int | None]:
    """Backend and batch size; auto goes on with what it chose when the run was started."""
    if backend != "auto" or earlier is None:
        return backend, batch_size
    config = earlier.config
    if config.backend is None:
        raise InputError(f"{earlier.path / 'run.json'} does not say which backend it chose: give --backend")
    return config.backend, config.batch_size if batch_size is None else batch_size


def run_device(run: Run) -> str | None:
    """The device that a run was made on, where it names one."""
    return run.config.device


def noise(
    name: str,
    strength: float | None,
    norm: str | None,
    values: int | None,
    checkpoint: Checkpoint,
    *,
    grid: str,
    eight_bit: bool,
) -> Noise:
    """The noise that the options name; its strength is the one of training where none is given."""
    from smoothcert.noise import NOISES

    kind = NOISES.find(name)
    if strength is None:
        trained: dict[str, Any] = checkpoint.details.get("noise") or {}
        if trained.get("name") != name or kind.strength_name not in trained:
            raise InputError(f"give --sigma, the {kind.strength_name} of the noise: the checkpoint does not name one")
        strength = float(trained[kind.strength_name])
    takes = {f.name for f in fields(kind)}
    given = {"norm": norm, "values": values, "grid": _grid(grid, eight_bit and "grid" in takes)}
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    for key in options:
        if key not in takes:
            raise InputError(f"--{key} does not go with --noise {name}; leave it out")
    return kind(**{kind.strength_name: strength}, **options)


def search(method: str | None, steps: int | None, draws: int | None, procedure: Procedure) -> SigmaSearch | None:
    """The search of --sigma-per-input, for certificates of that procedure."""
    from smoothcert.engine.sigma import SEARCHES, sigma_search
    from smoothcert.procedures import Budgeted, FixedDraws

    if method is None:
        if steps is not None or draws is not None:
            raise InputError("--sigma-steps and --sigma-draws go with --sigma-per-input; give it, or leave them out")
        return None
    if not isinstance(procedure, FixedDraws | Budgeted):
        raise InputError(
            f"--sigma-per-input looks for the largest radius, and --procedure {procedure.name} decides given ones; "
            "take fixed or budgeted"
        )
    takes = {f.name for f in fields(SEARCHES.find(method))}
    purpose = {"n": procedure.fixed_draws(), "alpha": procedure.alpha} if {"n", "alpha"} <= takes else {}
    return sigma_search(method, steps=steps, draws=draws, **purpose)


def _grid(text: str, automatic: bool) -> float | None:
    """The value of --grid: the step, or None for float32."""
    from smoothcert.noise.gridded import MOST_GRID_LEVELS

    if text in ("auto", "off"):
        return 1 / 255 if text == "auto" and automatic else None
    if not text.isdecimal() or not 1 <= int(text) <= MOST_GRID_LEVELS:
        raise InputError(
            f"--grid must be auto, off, or a whole number from 1 to {MOST_GRID_LEVELS} such as 255, got {text!r}"
        )
    return 1 / int(text)


def check_shape(shape: tuple[int, ...], architecture: Architecture, data: str) -> None:
    """Refuse inputs that the model was not made for."""
    wanted = tuple(architecture.input_shape)
    if tuple(shape) != wanted:
        raise InputError(
            f"--data {data} has inputs of shape {tuple(shape)} but the model {architecture.name} takes {wanted}; "
            "certify the data set that the model was trained for"
        )
