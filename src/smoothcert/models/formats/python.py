"""A model that Python code makes: `my_models.py:net` or `package.module:net`."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.models.fingerprint import fingerprint
from smoothcert.models.formats.checkpoint import Checkpoint, Signature
from smoothcert.models.formats.reading import check_device
from smoothcert.models.formats.registry import FORMATS, Format

_FORM = re.compile(r"(?P<place>.+\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_NO_FINGERPRINT = "so its run can be neither resumed nor checked against the model"


def takes(path: Path) -> bool:
    """FILE.py:NAME or PACKAGE.MODULE:NAME; also a bare .py file, to be told what is missing."""
    return _FORM.fullmatch(str(path)) is not None or path.suffix == ".py"


def load(path: Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Run the code, and take the module, the function of a batch, or what a factory without arguments gives.

    What is known of it comes from its attributes `num_classes`, `input_shape` and `class_names`, where it has them.
    """
    found = _FORM.fullmatch(str(path))
    if found is None:
        raise InputError(f"{path} needs the name of the model in it; give {path}:net")
    place, name = found["place"], found["name"]
    home = _run_file(Path(place)) if place.endswith(".py") else _imported(place)
    if not hasattr(home, name):
        known = [one for one, value in vars(home).items() if callable(value) and not one.startswith("_")]
        defined = f"it defines {', '.join(known[:8])}" if known else "it defines nothing that can be called"
        raise InputError(f"{place} has no {name}; {defined}")
    model = _made(str(path), getattr(home, name))
    notes = [f"the code of {Path(place).name} is run, with all rights that you have"]
    identity = getattr(model, "fingerprint", None)
    if isinstance(model, nn.Module):
        model = model.to(check_device(device)).eval()
        identity = fingerprint(model)
    if not isinstance(identity, str):
        way_out = (
            "keep only numbers, strings, tensors and modules in its attributes"
            if isinstance(model, nn.Module)
            else "return a torch module, or give the function an attribute fingerprint"
        )
        notes.insert(0, f"{path.name} has no fingerprint, {_NO_FINGERPRINT}; {way_out}")
        identity = None
    classes, shape, called = (getattr(model, key, None) for key in ("num_classes", "input_shape", "class_names"))
    known_shape = tuple(shape) if isinstance(shape, tuple | list | torch.Size) else None
    signature = Signature(f"python:{name}", classes if isinstance(classes, int) else None, known_shape)
    details = {"class_names": [str(one) for one in called]} if isinstance(called, tuple | list) else {}
    return Checkpoint(model, signature, details, identity, tuple(notes))


def _made(source: str, thing: Any) -> Any:
    """A module or a function of a batch, as it is or as a factory without arguments makes it."""
    if isinstance(thing, nn.Module):
        return thing
    if not callable(thing):
        raise InputError(f"{source} is {type(thing).__name__}, not a torch module or a function that makes one")
    needed = _needed(thing)
    if needed == 1 and not isinstance(thing, type):
        return thing  # of a batch
    if needed:
        raise InputError(f"{source} needs {needed} arguments; give a function without arguments that builds the model")
    try:
        made = thing()
    except Exception as error:
        raise InputError(
            f"{source} cannot build the model ({type(error).__name__}: {error}); mend the function"
        ) from error
    if not callable(made):
        raise InputError(f"{source} builds {type(made).__name__}, not a torch module; return the module")
    return made


def _needed(thing: Callable[..., Any]) -> int:
    """How many arguments it cannot do without."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return 1
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(one.default is inspect.Parameter.empty and one.kind not in optional for one in parameters)


def _run_file(path: Path) -> ModuleType:
    """The file as a module whose name follows from its content: the same file gives the same fingerprint anywhere."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"the file {path} cannot be read: {error.strerror}; give FILE.py:NAME") from None
    name = f"smoothcert_model_{hashlib.sha256(content).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        with _importing_from(path.resolve().parent):
            exec(compile(content, path, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InputError(
            f"{path} cannot be run ({type(error).__name__}: {error}); mend it, or install what it needs"
        ) from error
    return module


def _imported(name: str) -> ModuleType:
    try:
        with _importing_from(Path.cwd()):
            return importlib.import_module(name)
    except Exception as error:
        raise InputError(
            f"the module {name} cannot be imported ({type(error).__name__}: {error}); install it, or give FILE.py:NAME"
        ) from error


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Files beside the code can be imported, as when Python runs it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


FORMATS.add(Format("my_models.py:net", takes, load, runs_code=True), "python")
