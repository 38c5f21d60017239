"""Which classifier is this? A fingerprint that certificates, runs and memories can compare."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.errors import InputError


def fingerprint(model: nn.Module) -> str:
    """Return a SHA-256 (hex) of the architecture and every weight of `model`.

    It is the same after saving and loading, on every device, in every memory format, in training and evaluation mode;
    it changes with a single bit of a weight or buffer, with a dtype, a shape, and with any option of any layer that is
    a plain value (stride, k of an ensemble, weights given as a tuple of numbers ...). What it cannot see is the code of
    `forward`: of that, only the names of the classes are part of it. So equal fingerprints mean equal classifiers where
    equal class names mean equal code.
    """
    state: dict[str, Any] = dict(model.state_dict())
    for name, buffer in model.named_buffers(remove_duplicate=False):
        state.setdefault(name, buffer)  # also the buffers that are not saved
    text = json.dumps({"layers": _layers(model), "weights": weights_digest(state)})
    return hashlib.sha256(text.encode()).hexdigest()


def weights_digest(state: Mapping[str, Any]) -> str:
    """Return a SHA-256 (hex) of the names, dtypes, shapes and raw bytes of a state dict, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        _feed(digest, name, state[name])
    return digest.hexdigest()


def _feed(digest: "hashlib._Hash", name: str, value: Any) -> None:
    if isinstance(value, Tensor):
        label = json.dumps([name, str(value.dtype), list(value.shape)])
        # contiguous() puts the elements into their logical order whatever the memory format is.
        raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        digest.update(label.encode() + b"\n")  # JSON has no raw newline: where the label ends is never in doubt
        digest.update(raw.data)
    elif isinstance(value, list | tuple):
        digest.update(json.dumps([name, len(value)]).encode() + b"\n")
        for index, item in enumerate(value):
            _feed(digest, f"{name}[{index}]", item)
    elif value is None or isinstance(value, bool | int | float | str):
        digest.update(json.dumps([name, str(value)]).encode() + b"\n")
    else:
        raise InputError(
            f"the state {name!r} of the model must be a tensor or a plain value to have a fingerprint, "
            f"got {type(value).__name__}; keep it out of state_dict()"
        )


def _layers(model: nn.Module) -> list[Any]:
    """List every layer as [name, class, options], the options being the public attributes with plain values."""
    return [
        [
            name,
            type(layer).__qualname__,
            {key: value for key, value in sorted(vars(layer).items()) if _told(key, value)},
        ]
        for name, layer in model.named_modules(remove_duplicate=False)
    ]


def _told(key: str, value: object) -> bool:
    return not key.startswith("_") and key != "training" and _plain(value)


def _plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
