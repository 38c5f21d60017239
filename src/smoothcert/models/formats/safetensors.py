"""A trained network in one file: weights, architecture, normalisation and what made it.

The file is a safetensors file, which holds numbers and one JSON text and cannot run code on load. The text, under the
metadata key `smoothcert`, has a digest of the whole file, the format version, the architecture and the details. Weights
in float32 that are numbers of 16 bits, all of them, are written as such, and are float32 again when they are read.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file, write_whole
from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.formats.checkpoint import Checkpoint
from smoothcert.models.formats.reading import check_device
from smoothcert.models.formats.registry import FORMATS, Format
from smoothcert.models.formats.sealed_tensors import DAMAGE, is_whole, pack, unpack
from smoothcert.models.networks.registry import build
from smoothcert.models.networks.specification import Architecture

_KEY = "smoothcert"
_FORMAT = 2
_SHORTENED = "float32 as float16"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def save(path: str | Path, model: nn.Module, architecture: Architecture, details: Mapping[str, Any]) -> None:
    """Write `model` to `path` so that `load` gives back the same function, bit for bit.

    The file appears at once and whole, or not at all: it is written beside its place, flushed to the disk, and moved
    there. What `load` would refuse is refused here, and an older file of that name is then left as it was.

    Args:
        path: ends in `.safetensors`; its folder exists.
        model: as `build(architecture)` made it, with any weights, on any device.
        architecture: its specification.
        details: JSON-able, for whoever reads the checkpoint: recipe, seed, epoch, noise ...
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"path of a checkpoint must end in .safetensors, got {path}")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it before saving {path.name} there")
    # Copies, because safetensors takes neither tensors that share memory nor those in another memory format.
    tensors = {name: _copy(name, value) for name, value in model.state_dict().items()}
    _refuse_misfit("the model", tensors, architecture, _skeleton(architecture))
    header = {"format": _FORMAT, "architecture": architecture.to_json()}
    if _all_short(tensors):
        tensors = {name: value.half() if value.dtype == torch.float32 else value for name, value in tensors.items()}
        header[_SHORTENED] = True
    try:
        content = pack(tensors, _KEY, header | {"details": dict(details)})
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"details must be JSON: numbers that are finite, strings, lists and objects ({error})"
        ) from error
    write_whole(path, content)


def load(path: str | Path, device: str | torch.device = "cpu", *, expect: str | None = None) -> Checkpoint:
    """Read a checkpoint that `save` wrote; a file that is anything else is refused with an `InputError`.

    Either every byte is the one that was saved (a digest is compared) or nothing is returned. Neither code from the
    file nor torch's random generators are touched.

    Args:
        path: the `.safetensors` file.
        device: where the model goes.
        expect: the name the architecture must have, if only that one will do.
    """
    path = Path(path)
    tensors, header = _read(path)
    details = header.get("details")
    if not isinstance(details, dict):
        raise InputError(f"{path} has no details in its {_KEY} metadata: it is damaged, save it again")
    try:
        architecture = Architecture.from_json(header.get("architecture", {}))
        _skeleton(architecture)
    except InputError as error:
        raise InputError(f"{path} asks for an architecture that cannot be built: {error}") from error
    if expect is not None and architecture.name != expect:
        raise InputError(f"{path} holds the architecture {architecture.name}, but {expect} is expected")
    model = with_weights(str(path), tensors, architecture)
    identity = fingerprint(model)
    if identity is None:
        raise InputError(
            f"{path} holds the architecture {architecture.name}, which has no fingerprint: keep only numbers, strings, "
            "tensors and modules in its attributes, and no hooks"
        )
    return Checkpoint(model.to(check_device(device)), architecture, details, identity)


def with_weights(source: str, tensors: Mapping[str, Tensor], architecture: Architecture) -> nn.Module:
    """The network of an architecture with these weights, in evaluation mode; those that are not its own are refused."""
    model = _skeleton(architecture)
    _refuse_misfit(source, tensors, architecture, model)
    model.load_state_dict(dict(tensors), assign=True)
    return model.eval()


def rounded(model: nn.Module) -> nn.Module:
    """A copy whose float32 weights are rounded to 16 bits: its file is half as large, and it is another classifier."""
    copied = copy.deepcopy(model)
    for name, tensor in copied.state_dict().items():
        if tensor.dtype == torch.float32:
            if tensor.numel() and float(tensor.abs().max()) > torch.finfo(torch.float16).max:
                raise InputError(
                    f"the tensor {name!r} has numbers beyond those of 16 bits; keep the weights as they are"
                )
            tensor.copy_(tensor.half())
    return copied


def _all_short(tensors: Mapping[str, Tensor]) -> bool:
    """Whether all numbers in float32 are numbers of 16 bits, and none is in float16 already."""
    if any(tensor.dtype == torch.float16 for tensor in tensors.values()):
        return False
    long = [tensor for tensor in tensors.values() if tensor.dtype == torch.float32]
    return bool(long) and all(torch.equal(tensor.half().float(), tensor) for tensor in long)


def _copy(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise InputError(f"the state {name!r} of the model must be a tensor to be saved, got {type(value).__name__}")
    return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def _skeleton(architecture: Architecture) -> nn.Module:
    """Build the network without memory for its weights."""
    with torch.device("meta"):
        return build(architecture)


def _refuse_misfit(source: str, tensors: Mapping[str, Tensor], architecture: Architecture, model: nn.Module) -> None:
    """Refuse weights that are not those of `model` by name, shape and kind of number, or that are not finite."""
    wanted: dict[str, Tensor] = dict(model.state_dict())
    unfit = f"{source} does not fit the architecture {architecture.name}"
    for name in wanted:
        if name not in tensors:
            raise InputError(f"{unfit}: the tensor {name!r} is missing")
    for name, tensor in tensors.items():
        if name not in wanted:
            raise InputError(f"{unfit}: the tensor {name!r} is unexpected")
        if tensor.shape != wanted[name].shape:
            expected = tuple(wanted[name].shape)
            raise InputError(f"{unfit}: the tensor {name!r} must have shape {expected}, got {tuple(tensor.shape)}")
        allowed = _FLOATS if wanted[name].is_floating_point() else (wanted[name].dtype,)
        if tensor.dtype not in allowed:
            raise InputError(f"{unfit}: the tensor {name!r} must be one of {allowed}, got {tensor.dtype}")
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise InputError(
                f"{source} has weights that are not finite, in {name!r}: training has diverged, train again"
            )


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        raw = read_file(path)
    except FileNotFoundError as error:
        raise InputError(f"the checkpoint {path} does not exist") from error
    except OSError as error:
        raise InputError(f"the checkpoint {path} cannot be read: {error.strerror}") from error
    try:
        tensors, header = unpack(raw, _KEY)
    except DAMAGE as error:
        raise InputError(f"{path} is not a whole safetensors file; copy or save it again") from error
    if header is None:
        raise InputError(
            f"{path} is a safetensors file, but not a checkpoint that smoothcert saved (no {_KEY!r} metadata); say "
            "which network its weights are of: smoothcert model import"
        )
    if header.get("format") != _FORMAT:
        raise InputError(
            f"{path} has checkpoint format {header.get('format')!r}, but this version reads {_FORMAT}; "
            "save it again with this version, or use the version that wrote it"
        )
    if not is_whole(raw, _KEY):
        raise InputError(f"{path} is damaged: it is not as it was saved; copy or save it again")
    if header.get(_SHORTENED):
        tensors = {name: value.float() if value.dtype == torch.float16 else value for name, value in tensors.items()}
    return tensors, header


FORMATS.add(Format("net.safetensors", lambda path: path.suffix == ".safetensors", load), "safetensors")
