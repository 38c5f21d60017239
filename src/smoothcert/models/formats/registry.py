"""Formats of models by name: each file of this package registers one, and the first that takes a source reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry
from smoothcert.models.formats.checkpoint import Checkpoint


@dataclass(frozen=True)
class Format:
    """A kind of model that people bring.

    Args:
        form: what is given as --model, as in `net.onnx`.
        takes: whether a source is of this kind, by its name and its first bytes; it runs nothing.
        load: reads it, for a device; what cannot be read is an `InputError`.
        runs_code: whether loading it or using it runs code that came with it.
    """

    form: str
    takes: Callable[[Path], bool]
    load: Callable[[Path, str | torch.device], Checkpoint]
    runs_code: bool = False


FORMATS: Registry[Format] = Registry("model format")


def format_of(source: Path) -> Format:
    """The format of a source; what is of none is refused, with those that there are."""
    for one in FORMATS.values():
        if one.takes(source):
            return one
    if not source.exists():
        raise InputError(f"the model {source} does not exist; give one of {_forms()}")
    raise InputError(
        f"{source} is not a model that smoothcert can read: it reads {_forms()}; for anything else write a function "
        "that builds your model, and give --model my_models.py:net"
    )


def load(source: str | Path, device: str | torch.device = "cpu", *, code: bool = True) -> Checkpoint:
    """Read a model of any format; without `code`, one that brings code of its own is refused."""
    path = Path(source)
    found = format_of(path)
    if found.runs_code and not code:
        raise InputError(
            f"{path} brings code of its own, which a file that names it must not run; give it as --model itself"
        )
    return found.load(path, device)


def _forms() -> str:
    forms = [one.form for one in FORMATS.values() if one.form]
    return ", ".join(forms[:-1]) + f" and {forms[-1]}"
