"""Models that people bring: what one is, in one file that smoothcert keeps, and as ONNX for others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from smoothcert.core.errors import InputError
from smoothcert.core.files import write_whole
from smoothcert.core.model import evaluating
from smoothcert.core.randomness import generator
from smoothcert.engine.classifier import same_scores
from smoothcert.models import Architecture, Checkpoint, Normalize, fingerprint, in_own_precision, precision_of, save
from smoothcert.models.formats import onnx_normalised, published
from smoothcert.models.formats.onnx import OnnxModel
from smoothcert.models.formats.onnx_export import exported
from smoothcert.models.formats.reading import is_pickled
from smoothcert.models.formats.safetensors import rounded
from smoothcert.models.normalisation import Normalisation, parse_normalisation
from smoothcert.noise import Gaussian, Noise
from smoothcert.workflows.observer import SILENT, Observer
from smoothcert.workflows.pixels import PixelCheck, check_pixels
from smoothcert.workflows.sources import DataSource, Files, load_model, open_data, open_model

PROBES = 256  # noisy inputs on which an exported graph is compared with the model


@dataclass(frozen=True)
class ModelInfo:
    """What a model is, as far as it can be told; None: not known."""

    kind: str
    parameters: int | None
    flops: int | None  # of one input: two for each product that is added
    input_shape: tuple[int, ...] | None
    num_classes: int | None
    normalisation: Mapping[str, Any] | None  # the one inside of it, that we put there
    precision: str
    fingerprint: str | None
    noise: Mapping[str, Any] | None  # that it was trained under
    pixels: PixelCheck | None = None  # with data only

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        content = {**vars(self), "input_shape": None if self.input_shape is None else list(self.input_shape)}
        return content | {"pixels": None if self.pixels is None else self.pixels.to_json()}

    @property
    def lines(self) -> list[str]:
        """In words, one line each."""
        inside = self.normalisation or {}
        rows = {
            "kind": self.kind,
            "parameters": None if self.parameters is None else f"{self.parameters:,}",
            "FLOPs of one input": None if self.flops is None else f"{self.flops:,}",
            "input": None if self.input_shape is None else " x ".join(map(str, self.input_shape)),
            "classes": self.num_classes,
            "normalisation inside": f"mean {inside['mean']}, std {inside['std']}" if inside else None,
            "precision": self.precision,
            "trained under": None if self.noise is None else _words(self.noise),
            "fingerprint": self.fingerprint,
        }
        found = [f"{name}: {'not known' if value is None else value}" for name, value in rows.items()]
        return [*found, *([self.pixels.sentence] if self.pixels else [])]


def info(
    source: Files,
    *,
    data: DataSource | None = None,
    split: str = "test",
    data_root: Path | None = None,
    shape: Sequence[int] | None = None,
    device: str = "cpu",
    observer: Observer = SILENT,
) -> ModelInfo:
    """What a model is; with labelled `data`, whether it takes raw pixels, or which normalisation it was trained on."""
    loaded = load_model(source, device=device)
    for note in loaded.notes:
        observer.warned(note)
    return _about(loaded, data, split, data_root, shape)


def import_model(
    source: str | Path,
    out: str | Path,
    *,
    arch: str | None = None,
    shape: Sequence[int] | None = None,
    sigma: float | None = None,
    normalize: str | None = None,
    half: bool = False,
    data: DataSource | None = None,
    split: str = "test",
    data_root: Path | None = None,
    observer: Observer = SILENT,
) -> ModelInfo:
    """Write a model of any format to one file of ours (.safetensors), or, where it is no network of ours, to ONNX.

    Args:
        source: see `load_model`; or weights alone, with `arch`.
        out: ends in .safetensors or .onnx.
        arch: the network that weights are of. Default: the one that their file names.
        shape: of one input. Default: the usual one of the network.
        sigma: of the Gaussian noise that it was trained under.
        normalize: put a normalisation inside: a name such as cifar10, or MEANS/STDS.
        half: round the weights to 16 bits: half the file, and another classifier; it still computes in float32.
        data: labelled data to check that raw pixels go in.
    """
    path, out = Path(source), Path(out)
    if out.suffix not in (".safetensors", ".onnx"):
        raise InputError(f"--out must end in .safetensors or .onnx, got {out}")
    wanted = None if normalize is None else parse_normalisation(normalize)
    if arch is not None or is_pickled(path):
        if arch is not None and path.suffix != ".safetensors" and not is_pickled(path) and path.exists():
            raise InputError(f"--arch goes with a file of weights, and {path} brings its own network; leave it out")
        loaded = published.read(path, arch=arch, input_shape=shape, normalisation=wanted)
    else:
        loaded = load_model(path)
        loaded = loaded if wanted is None else with_normalisation(loaded, wanted, shape)
    for note in loaded.notes:
        observer.warned(note)
    if sigma is not None:
        loaded = replace(loaded, details=loaded.details | {"noise": Gaussian(sigma).describe()})
    if half:
        loaded = _rounded(loaded, out)
    found = _about(loaded, data, split, data_root, shape)
    if out.suffix == ".onnx":
        write_whole(out, _onnx(loaded, shape))
    elif isinstance(loaded.architecture, Architecture) and isinstance(loaded.model, nn.Module):
        save(out, loaded.model, loaded.architecture, loaded.details)
    else:
        raise InputError(f"{path} is no network of ours, so --out must be an .onnx file; or give it as --model itself")
    return found


def _rounded(loaded: Checkpoint, out: Path) -> Checkpoint:
    if out.suffix != ".safetensors" or not isinstance(loaded.model, nn.Module):
        raise InputError("--half is for weights in a .safetensors file; leave it out")
    model = rounded(loaded.model)
    return replace(loaded, model=model, fingerprint=fingerprint(model))


def export(source: Files, out: str | Path, *, shape: Sequence[int] | None = None, observer: Observer = SILENT) -> str:
    """Write a model as ONNX, for any number of rows; says on how many noisy inputs ONNX Runtime votes the same.

    A graph whose scores are not the model's, within rounding, is refused, and nothing is written then.
    """
    out = Path(out)
    if out.suffix != ".onnx":
        raise InputError(f"--out must end in .onnx, got {out}")
    loaded = load_model(source)
    for note in loaded.notes:
        observer.warned(note)
    content = _onnx(loaded, shape)
    again = onnx_normalised.read_again(content)
    x = _probe(_shape(loaded, shape))
    model = in_own_precision(loaded.model)
    with torch.inference_mode(), evaluating(model):
        before, after = model(x.clone()), again.model(x.clone())
    if before.shape != after.shape or not same_scores(before, after):
        raise InputError(f"{out} would give other scores than the model; certify the model itself with --backend eager")
    same = int((before.argmax(1) == after.argmax(1)).sum())
    write_whole(out, content)
    return f"{same} of {len(x)} votes on noisy inputs are the same by ONNX Runtime"


def with_normalisation(loaded: Checkpoint, wanted: Normalisation, shape: Sequence[int] | None) -> Checkpoint:
    """The model for raw pixels of one that takes normalised ones; where one is inside already, it is refused."""
    known, model = loaded.architecture, loaded.model
    if isinstance(known, Architecture) and known.mean:
        raise InputError(f"{known.name} has a normalisation inside already; leave --normalize out")
    mean, std = wanted.for_channels(_shape(loaded, shape)[0])
    if isinstance(model, OnnxModel):
        again = onnx_normalised.read_again(onnx_normalised.normalised(model, mean, std))
        return replace(again, details=loaded.details)
    if not isinstance(model, nn.Module):
        raise InputError("--normalize goes with a module, and the model is a function; normalise inside of it")
    part = model if isinstance(known, Architecture) else in_own_precision(model)
    inside = nn.Sequential(Normalize(mean, std), part).eval()
    made = replace(known, mean=mean, std=std) if isinstance(known, Architecture) else known
    return replace(loaded, model=inside, architecture=made, fingerprint=fingerprint(inside))


def _about(
    loaded: Checkpoint, data: DataSource | None, split: str, root: Path | None, shape: Sequence[int] | None
) -> ModelInfo:
    known, model = loaded.architecture, in_own_precision(loaded.model)
    dataset = None if data is None else open_data(data, split, root=root, called="--data")
    of_data = None if dataset is None else tuple(dataset.inputs.shape[1:])
    takes = known.input_shape or (tuple(shape) if shape else of_data)
    noise, classes, pixels = loaded.details.get("noise"), known.num_classes, None
    if dataset is not None:
        opened = open_model(replace(loaded, notes=()), example=dataset.tensors([0]))
        opened.check_shape(dataset.inputs.shape[1:], dataset.name)
        classes = opened.num_classes
        if dataset.num_classes > classes:
            raise InputError(f"--data {dataset.name} has {dataset.num_classes} classes but the model answers {classes}")
        pixels = check_pixels(opened.model, dataset, classes, None if noise is None else Noise.from_description(noise))
    inside = (
        {"mean": list(known.mean), "std": list(known.std)} if isinstance(known, Architecture) and known.mean else None
    )
    return ModelInfo(
        kind=known.name,
        parameters=_parameters(model) if isinstance(model, nn.Module) else None,
        flops=_flops(model, takes) if isinstance(model, nn.Module) and takes else None,
        input_shape=takes,
        num_classes=classes,
        normalisation=inside,
        precision=(precision_of(model) if isinstance(model, nn.Module) else "") or "not known",
        fingerprint=loaded.fingerprint,
        noise=noise,
        pixels=pixels,
    )


def _parameters(model: nn.Module) -> int:
    graphs = [part for part in model.modules() if isinstance(part, OnnxModel)]
    return sum(p.numel() for p in model.parameters()) + sum(graph.parameter_count() for graph in graphs)


@torch.no_grad()
def _flops(model: nn.Module, shape: Sequence[int]) -> int | None:
    """Of convolutions and matrix products of one input; None where torch cannot count them."""
    if any(isinstance(part, OnnxModel) for part in model.modules()):
        return None
    try:
        with evaluating(model), FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, *shape))
    except Exception:  # whatever a model raises on inputs that are not its own
        return None
    return int(counter.get_total_flops()) or None


def _onnx(loaded: Checkpoint, shape: Sequence[int] | None) -> bytes:
    model = in_own_precision(loaded.model)
    if isinstance(model, OnnxModel):
        return model.content()
    if not isinstance(model, nn.Module):
        raise InputError("a function cannot be exported to ONNX; give a torch module")
    try:
        return exported(model, _probe(_shape(loaded, shape), rows=4), any_batch=True)
    except Exception as error:  # the exporter raises what it likes, and runs the model's own code
        said = " ".join(str(error).split())[:160]
        raise InputError(f"{loaded.architecture.name} cannot be exported to ONNX ({said}); use it as it is") from error


def _shape(loaded: Checkpoint, given: Sequence[int] | None) -> tuple[int, ...]:
    known = loaded.architecture.input_shape
    if known is None and given is None:
        raise InputError("the model's file does not say which inputs it takes; give --shape, as in 3,32,32")
    if known is not None and given is not None and tuple(given) != tuple(known):
        raise InputError(
            f"--shape {','.join(map(str, given))} is not what the model takes, {tuple(known)}; leave it out"
        )
    return tuple(known or given or ())


def _probe(shape: Sequence[int], rows: int = PROBES) -> torch.Tensor:
    stream = generator(0, "", "probe", 0)
    rows = max(2, min(rows, 2**24 // max(1, math.prod(shape))))
    x = torch.rand((rows, *shape), generator=stream)
    return x.add_(torch.randn(x.shape, generator=stream), alpha=0.25)


def _words(noise: Mapping[str, Any]) -> str:
    one = Noise.from_description(noise)
    return f"{one.name} noise, {one.strength_name} {one.strength:g}"
