"""What people bring, opened: a model, data, a memory, a device, calibration inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert import datasets
from smoothcert.core.errors import InputError
from smoothcert.core.model import Model, count_classes
from smoothcert.datasets import Dataset, ReadOptions, Subset
from smoothcert.engine.backends import BACKENDS
from smoothcert.models import Architecture, Checkpoint, ensembles, in_own_precision, save
from smoothcert.models.zoo import model_file
from smoothcert.runs import ModelConfig
from smoothcert.workflows.observer import SILENT, Observer

Files = str | Path | Sequence[str | Path]
ModelSource = Model | Checkpoint | Files
"""A module, a function of tensors, what `load_model` gave, or files: of several the members vote softly."""

DataSource = Dataset | str | Path | tuple[Any, Any] | list[Any] | np.ndarray[Any, Any] | Tensor
"""A data set, the name of one, an .npz file, a folder of images, a table, or arrays (x, y); without labels: an array x,
or a list of images, folders of images and .npy files."""

CALIBRATION_INPUTS = 512


@dataclass(frozen=True)
class Classifier:
    """A model that was brought, and all that is known of it."""

    model: Model
    num_classes: int
    input_shape: tuple[int, ...] | None = None  # None: not known
    name: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)  # of a checkpoint: its noise, what was held out, ...
    about: ModelConfig = field(default_factory=ModelConfig)  # what a run says of it
    device: str | None = None  # where to run it; None: where it is

    @property
    def class_names(self) -> list[str]:
        """What the classes are called; their numbers where nobody said."""
        return list(self.details.get("class_names") or map(str, range(self.num_classes)))

    def check_shape(self, shape: Sequence[int], data: str) -> None:
        """Refuse inputs that the model was not made for."""
        if self.input_shape is not None and tuple(shape) != self.input_shape:
            raise InputError(
                f"--data {data} has inputs of shape {tuple(shape)} but the model {self.name} takes {self.input_shape}; "
                "certify the data set that the model was trained for"
            )


def load_model(source: Files, *, device: str = "cpu") -> Checkpoint:
    """Read a model of any format, or several that vote softly.

    Formats: our checkpoints (net.safetensors), ensembles (ensemble.json), ONNX (net.onnx), torch.export (net.pt2),
    TorchScript, checkpoints of the papers' code (checkpoint.pth.tar), folders of Hugging Face, and Python
    ("my_models.py:net", "package.module:net": a module, or a function without arguments that builds one).

    Gives the model (`.model`), what it was built from (`.architecture`), what was recorded about it (`.details`), its
    `.fingerprint`, and `.notes`: sentences to read, as that code was run. No pickle is ever read but for its weights;
    code is run for Python, TorchScript and torch.export only.
    """
    files = [source] if isinstance(source, str | Path) else list(source)
    return ensembles.load_model([model_file(file) for file in files], device)


def save_model(
    path: str | Path,
    model: torch.nn.Module | Checkpoint,
    architecture: Architecture | None = None,
    *,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write a network to a checkpoint (.safetensors), from which `load_model` gives back the same function.

    Args:
        path: ends in `.safetensors`; its folder exists.
        model: as `smoothcert.architectures.build` made it, with any weights; or what `load_model` gave.
        architecture: what the module was built from. Your own network gets one by `smoothcert.architectures.register`.
        details: JSON-able, for whoever reads the checkpoint: recipe, seed, noise, ...
    """
    if isinstance(model, Checkpoint):
        known, details = model.architecture, model.details | dict(details or {})
        architecture = architecture or (known if isinstance(known, Architecture) else None)
        model = cast(nn.Module, model.model)
    if architecture is None:
        raise InputError("save_model needs the architecture that the module was built from; give architecture=")
    save(path, model, architecture, details or {})


def open_model(
    source: ModelSource,
    *,
    device: str | None = None,
    num_classes: int | None = None,
    example: Tensor | None = None,
    observer: Observer = SILENT,
) -> Classifier:
    """A model as the workflows take it; how many classes it has is asked of it, with the input `example`, if need be.

    Args:
        source: see `ModelSource`. Files go to the `device`, by default the best there is; a module is run where it is.
        num_classes: how many scores it gives, if its file does not say.
        example: one input, (1, ...).
        observer: hears what is to be known of the model: that code was run, that it has no fingerprint.
    """
    if isinstance(source, Checkpoint) or not callable(source):
        return _from_checkpoint(source, device, num_classes, example, observer)
    model = in_own_precision(source)
    if num_classes is None:
        num_classes = count_classes(model, example)
    where = None if device is None else find_device(device)
    return Classifier(model, num_classes, name=type(source).__name__, device=where)


def model_name(source: ModelSource) -> str | None:
    """What a model is called where nobody says: as its file, or as its folder where trainings call all files alike."""
    if isinstance(source, Checkpoint) or callable(source):
        return None
    file = model_file(source if isinstance(source, str | Path) else source[0]).absolute()
    return file.parent.name if file.stem == "model" else file.stem


def _from_checkpoint(
    source: Checkpoint | Files,
    device: str | None,
    num_classes: int | None,
    example: Tensor | None,
    observer: Observer,
) -> Classifier:
    paths: list[Path] = []
    if not isinstance(source, Checkpoint):
        paths = [model_file(one) for one in ([source] if isinstance(source, str | Path) else source)]
        source = load_model(paths, device=find_device(device))
    architecture = source.architecture
    about = ModelConfig(
        files=tuple(path.name for path in paths),
        architecture=architecture.to_json(),
        fingerprint=source.fingerprint,
        ensemble=source.details.get("ensemble"),
    )
    model, shape, name = in_own_precision(source.model), architecture.input_shape, architecture.name
    for note in source.notes:
        observer.warned(note)
    known = Classifier(model, architecture.num_classes or num_classes or 0, shape, name, source.details, about)
    if known.num_classes:
        return known
    if example is not None and shape is not None:
        known.check_shape(example.shape[1:], "of this shape")
    return replace(known, num_classes=count_classes(model, example))


def open_data(
    source: DataSource,
    split: str = "test",
    *,
    root: Path | None = None,
    called: str = "data",
    read: ReadOptions | None = None,
    shape: Sequence[int] | None = None,
) -> Dataset:
    """Data as the workflows take them; what cannot be opened is refused, naming the argument it was `called`.

    `read` says what the data leave open, `shape` what one input of the model is, for inputs without labels.
    """
    how = read or ReadOptions()
    if isinstance(source, list):
        return _unlabelled(source, how, shape)
    if not isinstance(source, str | Path):
        data = _in_memory(source, split, called).prepared(how.preprocessing)
        names = how.class_names
        return data if names is None else datasets.with_class_names(data, names, said_by="--class-names")
    try:
        return datasets.load(source, split, root=root, options=how, shape=shape)
    except InputError as error:
        text = str(error)
        if text.startswith("source "):
            text = f"{called} {text.removeprefix('source ')}"
        elif text.startswith(str(source)):
            text = f"{called} {text}"
        raise InputError(text) from None


def _in_memory(source: DataSource, split: str, called: str) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, tuple):
        if len(source) != 2:
            raise InputError(f"{called} must be (inputs, labels), got {len(source)} values")
        return datasets.from_arrays(*source, split=split)
    return datasets.from_arrays(source, split=split)


def _unlabelled(paths: Sequence[str | Path], how: ReadOptions, shape: Sequence[int] | None) -> Dataset:
    if how.label_column is not None:
        raise InputError("--label-column goes with a table (.csv, .parquet), given as --data; leave it out")
    try:
        data = datasets.read_unlabelled(paths, shape, how.preprocessing)
    except InputError as error:
        raise InputError(f"--input {error}") from None
    names = how.class_names
    return data if names is None else datasets.with_class_names(data, names, said_by="--class-names")


@contextmanager
def using_out(out: Path) -> Iterator[None]:
    """What the system says of the folder of a result is said of --out."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}"
        raise InputError(f"--out {out} cannot be used ({reason}); give a folder that can be written to") from None


def find_device(name: str | None) -> str:
    """The named device, if it is there; else the best there is."""
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {name!r} cannot be used here ({str(error).splitlines()[0]}); try --device cpu"
        ) from None
    return name


def calibration_inputs(
    backend: str, given: Any, data: DataSource | None, root: Path | None
) -> tuple[Tensor | None, str | None]:
    """Training inputs for an int8 backend, and their name for the run: those given, else the training split of `data`.

    Inputs themselves, or DATA or DATA:split, which names them. The name is for readers, without a folder: which inputs
    they were is said by the digest in the classifier.
    """
    if backend not in BACKENDS or not BACKENDS[backend].int8:
        if given is not None:
            raise InputError(f"--calibration goes with an int8 backend, and --backend is {backend}; leave it out")
        return None, None
    if given is not None and not isinstance(given, str | Path):
        return torch.as_tensor(given), None
    text = given if given is not None else data if isinstance(data, str | Path) else None
    name, _, split = str(text or "").rpartition(":")
    if split not in datasets.SPLITS:
        name, split = str(text or ""), "train"
    if not name:
        raise InputError(f"--backend {backend} needs --calibration, the data that the model was trained on")
    inputs = named_data(name, split, root, None if given is not None else "--calibration")
    every = max(1, len(inputs) // CALIBRATION_INPUTS)
    chosen = Subset(every=every, limit=CALIBRATION_INPUTS).indices(len(inputs))
    return inputs.tensors(chosen), f"{inputs.name}:{split}"


def named_data(
    name: str, split: str, root: Path | None, instead: str | None, read: ReadOptions | None = None
) -> Dataset:
    """Data; where they were not named by the user, the refusal says with which option they can be."""
    try:
        return open_data(name, split, root=root, called="--data", read=read)
    except InputError as error:
        if instead is None:
            raise
        raise InputError(f"{error}; or give {instead} PATH") from None


def is_eight_bit(data: Dataset) -> bool:
    """Images of whole levels, whose noise can be drawn exactly."""
    return data.inputs.dtype.name == "uint8"
