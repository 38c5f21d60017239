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
from smoothcert.engine.backends.base import BACKENDS, Backend, BackendTask, Executable, UnableError, backend
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
    "prepare",
    "same_votes",
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


def default_rows(model: Model, device: torch.device) -> int:
    """Rows per call: small on a CPU, where activations then stay in the cache of a core.

    One block; three where linear layers have more than a million weights, which are read from memory for every call.
    """
    if device.type != "cpu":
        return 1024
    if not isinstance(model, nn.Module):
        return BLOCK
    if isinstance(model, Ensemble):
        # The fewer rows a batch has, the fewer places are empty in the last one of what is left open.
        return BLOCK if model.adaptive else max(default_rows(member, device) for member in model.members)
    weights = sum(module.weight.numel() for module in model.modules() if isinstance(module, nn.Linear))
    return 3 * BLOCK if weights > 1_000_000 else BLOCK


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


def same_votes(executable: Executable, task: BackendTask) -> bool:
    """Does a row get the same scores, to the last bit, wherever in the batch it stands?

    Only then may blocks of several inputs share a call: else votes would depend on what else is certified. Blocks stand
    behind whole blocks, or behind the 100 draws that choose a class.
    """
    with _quiet_state(task):
        run, x = executable.new_runner(), task.probe()
        try:
            scores = run(x.clone())
            return all(torch.equal(scores.roll(shift, 0), run(x.roll(shift, 0))) for shift in (BLOCK, 100))
        except Exception:  # whatever a model raises on inputs that are not its own: then nothing is known
            return False


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
