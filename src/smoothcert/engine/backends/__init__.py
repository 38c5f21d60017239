"""Backends: ways to run a model. Each is a classifier of its own, and a certificate names the one that was sampled.

A backend is a function from a `BackendTask` to an `Executable`; a new one is one file with `@backend("name")`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK
from smoothcert.core.registry import import_all
from smoothcert.engine.backends import ensemble
from smoothcert.engine.backends.base import (
    BACKENDS,
    Backend,
    BackendTask,
    Executable,
    UnableError,
    backend,
    rows_are_independent,
)
from smoothcert.models.ensembles import Ensemble
from smoothcert.models.formats.onnx import OnnxModel

__all__ = [
    "AUTO",
    "BACKENDS",
    "Backend",
    "BackendTask",
    "Executable",
    "backend",
    "check_backend",
    "default_rows",
    "installed",
    "packs",
    "prepare",
]

AUTO = "auto"
OF_ONNX = "onnxruntime"  # what runs an ONNX file where no other backend is asked for


def installed(name: str) -> bool:
    """Are the packages of a backend there?"""
    return all(find_spec(package) is not None for package in BACKENDS[name].packages)


def check_backend(name: str, model: Model, device: torch.device, calibration: Tensor | None) -> None:
    """Refuse a backend that cannot be used, before anything is done."""
    if name != AUTO and name not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)} or {AUTO}, got {name!r}")
    if name in (AUTO, "eager"):
        return
    chosen = BACKENDS[name]
    if not isinstance(model, nn.Module):
        raise InputError(f"backend {name} runs torch modules only, and the model is a function; leave backend out")
    if chosen.packages and device.type != "cpu":
        raise InputError(f"backend {name} runs on the CPU, got device {device}; give device='cpu' or backend='eager'")
    if not installed(name):
        missing = ", ".join(package for package in chosen.packages if find_spec(package) is None)
        raise InputError(f"backend {name} needs {missing}; pip install 'smoothcert[{chosen.extra}]'")
    if chosen.int8 and calibration is None:
        raise InputError(f"backend {name} needs calibration, a tensor of training inputs: give calibration=")


def default_rows(model: Model, device: torch.device, shape: tuple[int, ...] = ()) -> int:
    """Rows per call: few on a CPU, where activations then stay in the cache of a core; many where inputs are small.

    128; 384 where linear layers have more than a million weights, which are read from memory for every call; up to 4096
    for functions of small inputs and for small networks of linear layers alone, where a call costs more than its rows.
    """
    if device.type != "cpu":
        return 1024
    if not isinstance(model, nn.Module):
        return _cached_rows(torch.Size(shape).numel()) if shape else BLOCK
    if isinstance(model, Ensemble):
        # The fewer rows a batch has, the fewer places are empty in the last one of what is left open.
        return BLOCK if model.adaptive else max(default_rows(member, device) for member in model.members)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if sum(module.weight.numel() for module in linear) > 1_000_000:
        return 3 * BLOCK
    own = [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]
    if linear and all(isinstance(module, _TABULAR) for module in own):
        return _cached_rows(max(max(module.in_features, module.out_features) for module in linear))
    return BLOCK


def _cached_rows(width: int) -> int:
    """As many rows of so many numbers as stay in the cache of a core, in whole blocks, within reason."""
    return max(BLOCK, min(MOST_ROWS, CACHED // width) // BLOCK * BLOCK)


_TABULAR = (nn.Linear, nn.BatchNorm1d, nn.LayerNorm)
MOST_ROWS = 4096
CACHED = 2**17
"""Numbers of a call that a core keeps near it."""


def prepare(name: str, task: BackendTask) -> Executable:
    """Prepare a task with a backend; a model that it cannot run is run by eager, with a warning and a note."""
    with _quiet_state(task):
        try:
            return _prepare(name, task)
        except UnableError as reason:
            instead = _prepare("eager", task)
            runs = instead.description["name"]
            note = f"backend {name} cannot run this model ({reason}); it is run by {runs}, and is described so"
            warnings.warn(note, stacklevel=2)
            return replace(instead, note=note)


def _prepare(name: str, task: BackendTask) -> Executable:
    if isinstance(task.model, Ensemble):
        return ensemble.prepare(partial(_prepare, name), task)
    if isinstance(task.model, OnnxModel):
        if name == "compile":
            raise UnableError("it is an ONNX file, which torch does not run")
        name = OF_ONNX if name == "eager" else name
    return BACKENDS[name].prepare(task)


def packs(executable: Executable, task: BackendTask) -> bool:
    """May draws of several inputs share a call? See `rows_are_independent`."""
    with _quiet_state(task):
        return rows_are_independent(executable.new_runner(), task.probe(), padded=True)


@contextmanager
def _quiet_state(task: BackendTask) -> Iterator[None]:
    """As in a worker: one thread on a CPU, no gradients, no autocast."""
    before = torch.get_num_threads()
    if task.device.type == "cpu" and isinstance(task.model, nn.Module):
        torch.set_num_threads(1)
    try:
        with torch.no_grad(), torch.autocast(task.device.type, enabled=False):
            yield
    finally:
        torch.set_num_threads(before)


import_all(__name__, __path__)
