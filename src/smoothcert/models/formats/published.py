"""Checkpoints of the papers' own code: `{epoch, arch, state_dict}` as torch.save wrote it, read as weights only.

The code of Cohen et al. 2019 (locuslab/smoothing), and after it that of Salman et al. 2019, Jeong & Shin 2020
(Consistency), Jeong et al. 2021 (SmoothMix) and 2023 (CAT-RS), saves `Sequential(normalisation, network)`, whose first
part has no weights; the network of ImageNet is in a DataParallel besides. Zhai et al. 2020 (MACER) save the network
alone, under `net`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.formats.checkpoint import Checkpoint
from smoothcert.models.formats.onnx_export import quiet
from smoothcert.models.formats.reading import check_device, is_pickled, model_bytes
from smoothcert.models.formats.registry import FORMATS, Format
from smoothcert.models.formats.safetensors import with_weights
from smoothcert.models.formats.sealed_tensors import DAMAGE, unpack
from smoothcert.models.networks.specification import Architecture
from smoothcert.models.normalisation import CIFAR10, IMAGENET, Normalisation

STATES = ("state_dict", "net", "model", "model_state_dict")  # where a file keeps the weights
ARCHITECTURES = {
    "cifar_resnet20": "cifar-resnet20",
    "cifar_resnet110": "cifar-resnet110",
    "resnet50": "resnet50",
    "lenet": "lenet-small",
}
"""Their names, and ours."""
_RESIDUAL = (
    (r"^conv1\.", "conv."),
    (r"^bn1\.", "bn."),
    (r"^layer(\d)\.", lambda found: f"stages.{int(found[1]) - 1}."),
    (r"\.downsample\.", ".shortcut."),
    (r"^fc\.", "classifier."),
)
_LENET = (
    (r"^conv1\.", "features.0."),
    (r"^conv2\.", "features.3."),
    (r"^fc1\.", "classifier.1."),
    (r"^fc2\.", "classifier.3."),
)


def load(path: Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Read a file that names its network itself."""
    return read(path, device=device)


def read(
    path: Path,
    *,
    arch: str | None = None,
    input_shape: Sequence[int] | None = None,
    normalisation: Normalisation | None = None,
    device: str | torch.device = "cpu",
) -> Checkpoint:
    """The network of a file of weights, by our names; weights that are not that network's are refused.

    Args:
        path: what torch.save wrote, or weights in a safetensors file.
        arch: our name of the network. Default: the one that the file names.
        input_shape: of one input. Default: the usual one of the network.
        normalisation: its first layer. Default: that of the papers' code, if the file was saved with one.
        device: where the model goes.
    """
    named, state = _content(path)
    name = arch or ARCHITECTURES.get(named or "")
    if name is None:
        said = f"names the network {named!r}" if named else "does not name its network"
        raise InputError(f"{path} {said}; give --arch, one of smoothcert's architectures such as cifar-resnet110")
    weights, normalised, told = _unwrapped(state)
    weights = {_ours(key, name): value for key, value in weights.items()}
    for key in [key for key in weights if key.endswith(".running_var")]:  # older versions of torch did not count
        weights.setdefault(key.removesuffix("running_var") + "num_batches_tracked", torch.tensor(0))
    shape: Any = tuple(input_shape) if input_shape is not None else _shape(name, weights, path)
    if normalisation is None:
        normalisation = told or (_usual(name) if normalised else None)
    architecture = Architecture(name, _classes(weights, path), shape)
    if normalisation is not None:
        mean, std = normalisation.for_channels(shape[0])
        architecture = replace(architecture, mean=mean, std=std)
        weights = {f"1.{key}": value for key, value in weights.items()}
        weights |= {"0.mean": torch.tensor(mean).reshape(-1, 1, 1), "0.std": torch.tensor(std).reshape(-1, 1, 1)}
    model = with_weights(str(path), weights, architecture)
    identity = fingerprint(model)
    return Checkpoint(model.to(check_device(device)), architecture, {}, identity)


def _content(path: Path) -> tuple[str | None, dict[str, Tensor]]:
    """The name of the network, if it is there, and the weights by their names."""
    content = model_bytes(path)
    if path.suffix == ".safetensors":
        try:
            tensors, _ = unpack(content, "smoothcert")
        except DAMAGE as error:
            raise InputError(f"{path} is not a whole safetensors file; copy or save it again") from error
        return None, tensors
    try:
        with quiet():
            found: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # of the reader of pickles, on what is damaged or is more than weights
        raise InputError(
            f"{path} cannot be read as weights alone (a pickle may run code, so nothing else in it is read); save the "
            "weights by themselves: torch.save(model.state_dict(), 'weights.pth')"
        ) from error
    named = found.get("arch") if isinstance(found, Mapping) else None
    for key in STATES:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
            break
    tensors = {str(k): v for k, v in found.items() if isinstance(v, Tensor)} if isinstance(found, Mapping) else {}
    if not tensors:
        raise InputError(f"{path} holds no weights under {', '.join(STATES)} or by themselves; save the state_dict")
    return named if isinstance(named, str) else None, tensors


def _unwrapped(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], bool, Normalisation | None]:
    """The network's own weights; whether a normalisation came first; and which one, where it has numbers."""
    weights, normalised, told = dict(state), False, None
    while True:
        if all(key.startswith("module.") for key in weights):
            weights = {key.removeprefix("module."): value for key, value in weights.items()}
        elif all(re.match(r"^(0\.(means?|sds?|stds?)$|1\.)", key) for key in weights):
            normalised = True
            first = {key[2:]: value for key, value in weights.items() if key.startswith("0.")}
            if len(first) == 2:
                mean, std = (first[key].flatten().tolist() for key in sorted(first))  # mean(s) before sd(s), std(s)
                told = Normalisation("its own", tuple(mean), tuple(std))
            weights = {key[2:]: value for key, value in weights.items() if key.startswith("1.")}
        elif all(key.startswith("0.") for key in weights):
            weights = {key[2:]: value for key, value in weights.items()}
        else:
            return weights, normalised, told


def _ours(key: str, name: str) -> str:
    """Our name of a weight; one that is ours already stays."""
    renaming: Any = _LENET if name.startswith("lenet") else _RESIDUAL if "resnet" in name else ()
    for pattern, instead in renaming:
        key = re.sub(pattern, instead, key)
    return key


def _usual(name: str) -> Normalisation | None:
    """What the papers' code puts first: for MNIST nothing."""
    return CIFAR10 if name.startswith("cifar-") else IMAGENET if name.startswith("resnet") else None


def _shape(name: str, weights: Mapping[str, Tensor], path: Path) -> tuple[int, int, int]:
    side = (
        28
        if name.startswith("lenet")
        else 32
        if name.startswith("cifar-")
        else 224
        if name.startswith("resnet")
        else None
    )
    if side is None:
        raise InputError(f"{path} does not say for which inputs {name} is; give --shape, as in 3,32,32")
    first = next((value for value in weights.values() if value.dim() == 4), None)
    return (3 if first is None else int(first.shape[1])), side, side


def _classes(weights: Mapping[str, Tensor], path: Path) -> int:
    last = [value for key, value in weights.items() if key.endswith("weight") and value.dim() == 2]
    if not last:
        raise InputError(f"{path} holds no linear layer that gives scores; is it a classifier?")
    return int(last[-1].shape[0])


FORMATS.add(Format("checkpoint.pth.tar of the papers", is_pickled, load), "published")
