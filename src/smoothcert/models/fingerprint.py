"""Which classifier is this? A fingerprint that certificates, runs and memories can compare."""

import dis
import functools
import hashlib
import inspect
import json
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn.modules import module as everywhere
from torch.nn.utils import parametrize

from smoothcert.models.foreign import Foreign, OwnPrecision


def fingerprint(model: nn.Module) -> str | None:
    """Return a SHA-256 (hex) of all that decides what `model` computes, or None if some of that cannot be identified.

    Hashed are, of every module that can be reached, the class and every attribute: parameters, buffers and children,
    and private numbers, tensors, caches, lists of modules ... Models with equal fingerprints have equal state. None is
    the answer to a hook of the forward pass, to bare TorchScript, and to any object whose state cannot be read.
    A network that was read from somebody's file (`Foreign`) is the bytes of that file and its weights.

    Code counts by name if it is torch's, numpy's, Python's or ours. Other functions and classes count by bytecode,
    defaults, closures, class attributes, and the globals they name: all of them in `__main__` and in generated code,
    in an imported file its own functions and classes and all values. Values that are read through a global by name
    (`settings.SCALE`, `settings.Net.SCALE`) count, unless the module is Python's own. What imported files call
    elsewhere is not seen, nor what is read by a way that the bytecode does not spell out: getattr(), another name for
    the module, an import inside a function, the environment, a file.

    It is the same on every device, in every memory format, in training and evaluation mode, in every process, and after
    saving and loading. Bytecode differs between versions of Python, and so do the fingerprints that depend on it.
    """
    if isinstance(model, OwnPrecision):  # a way to hand over inputs, which follows from the module
        model = model.module
    writer = _Writer({id(module): module for module in model.modules()})
    try:
        writer.write(model)
    except (ValueError, RecursionError):  # no rule for a value, or a list that contains itself
        return None
    return writer.digest.hexdigest()


def weights_digest(state: Mapping[str, Tensor]) -> str:
    """Return a SHA-256 (hex) of the names, dtypes, shapes and raw bytes of a state dict, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        label = json.dumps([name, str(state[name].dtype), list(state[name].shape)])
        digest.update(label.encode() + b"\n")  # JSON has no raw newline: where the label ends is never in doubt
        digest.update(_raw(state[name]))
    return digest.hexdigest()


class _Writer:
    """Feeds values to a hash, each with its type and length, so that different values are different streams.

    Modules, functions and classes are numbered as they are met and written once: shared ones and cycles come to an end.
    Everything else counts by value, because saving and loading unties what was one tensor or tuple.
    """

    def __init__(self, registered: Mapping[int, nn.Module]) -> None:
        self.digest = hashlib.sha256(b"smoothcert fingerprint 2\n")
        self.registered = registered
        self.met: dict[int, tuple[int, object]] = {}  # holds the objects, lest an id be given away again

    def write(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            self.entry(kind.__name__, _ATOMS[kind](value))
        elif kind in (tuple, list, torch.Size):
            self.entry(kind.__name__, b"%d" % len(value))
            for item in value:
                self.write(item)
        elif kind in (set, frozenset):
            self.entry(kind.__name__, b"".join(sorted(map(self.aside, value))))
        elif kind in (Tensor, nn.Parameter):
            self.entry(f"{value.dtype}{tuple(value.shape)}", _raw(value))
        elif id(value) in self.met:
            self.entry("met", b"%d" % self.met[id(value)][0])
        elif (name := _known_name(value)) is not None:
            self.entry("name", name.encode())
        else:
            self.write_parts(value)

    def write_parts(self, value: Any) -> None:
        self.entry("parts", f"{type(value).__module__}:{type(value).__qualname__}".encode())
        if isinstance(value, nn.Module | type | types.FunctionType):
            self.met[id(value)] = (len(self.met), value)
        if isinstance(value, nn.Module) and id(value) not in self.registered:
            self.write(value.training)  # the others follow the mode of the model: evaluation, when it is sampled
        self.write(_parts(value))

    def entry(self, tag: str, content: Any) -> None:
        self.digest.update(f"{tag} {len(content)}:".encode())
        self.digest.update(content)

    def aside(self, value: Any) -> bytes:
        writer = _Writer(self.registered)  # numbers of its own, since a set has no order
        writer.write(value)
        return writer.digest.digest()


def _raw(tensor: Tensor) -> Any:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta or vars(tensor).keys() - _BUFFER:
        raise ValueError("a tensor that is more or less than its numbers cannot be identified")
    # contiguous() puts the elements into their logical order whatever the memory format is.
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().data


def _parts(value: Any) -> Any:
    """Values that together are all there is to know about `value`."""
    kind = type(value)
    if kind in _PARTS:
        return _PARTS[kind](value)
    if isinstance(value, nn.Module):
        return _of_module(value)
    if isinstance(value, type):
        body = {name: part for name, part in sorted(vars(value).items()) if name not in _FRAME}
        return value.__module__, value.__qualname__, value.__bases__, body
    if hasattr(value, "__dict__") and (isinstance(value, Enum) or all(map(is_dataclass, (kind, *kind.__mro__[:-1])))):
        return kind, dict(sorted(vars(value).items()))
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufcSUmM":
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
        return value.__name__
    raise ValueError(f"a value of type {kind.__qualname__} cannot be identified")


def _of_module(module: nn.Module) -> Any:
    on_all = everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks
    if on_all or module._forward_hooks or module._forward_pre_hooks or isinstance(module, torch.jit.ScriptModule):
        raise ValueError("hooks and TorchScript cannot be identified")  # its `code` has neither constants nor callees
    if isinstance(module, Foreign):
        return _of_foreign(module)
    made, skipped = cast(Any, type(module)), _BOOKKEEPING
    if isinstance(module, fx.GraphModule) and made.__bases__ == (fx.GraphModule,):  # torch has made a class for it
        made, skipped = (module.code, made.forward), _GRAPH_BOOKKEEPING
    elif made.__module__ == parametrize.__name__ and parametrize.is_parametrized(module):  # here too
        made = made.__bases__
    if isinstance(module, nn.RNNBase):
        skipped = skipped | {"_flat_weight_refs"}  # weak references to its weights
    state = {name: value for name, value in sorted(vars(module).items()) if name not in skipped}
    return made, state | {name: dict(state[name]) for name in _REGISTERS}


def _of_foreign(module: Foreign) -> Any:
    """Its file, as it says itself, and its weights as they are now; what was hung onto its parts cannot be told."""
    for part in module.modules():
        if not isinstance(part, torch.jit.ScriptModule) and (part._forward_hooks or part._forward_pre_hooks):
            raise ValueError("hooks cannot be identified")
    # Without what other libraries write onto their parameters for themselves.
    weights = {name: one.detach() for name, one in (*module.named_parameters(), *module.named_buffers())}
    return type(module), module.identity(), str(module.takes), module.batch, weights_digest(weights)


def _of_function(function: types.FunctionType) -> Any:
    scope, home = function.__globals__, function.__globals__.get("__name__")
    reached = {name: scope[name] for name in sorted(_globals(function.__code__) & scope.keys())}
    if home != "__main__" and home in sys.modules and vars(sys.modules[home]) is scope:
        own = {n: v for n, v in reached.items() if isinstance(v, type | types.FunctionType) and v.__module__ == home}
        reached = {n: v for n, v in reached.items() if isinstance(v, _VALUES)} | own
    cells = [cell.cell_contents for cell in function.__closure__ or ()]  # a ValueError if one is empty
    return attrgetter(*_FUNCTION)(function), cells, reached | dict(sorted(_read(function.__code__, scope).items()))


def _globals(code: types.CodeType) -> set[str]:
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _read(code: types.CodeType, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Values that code reads as attributes of its globals, by their full names, such as "settings.SCALE"."""
    found: dict[str, Any] = {}
    name, value = "", None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            name, value = str(step.argval), scope.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and name and not _is_known(value):
            name, value = f"{name}.{step.argval}", inspect.getattr_static(value, step.argval, None)
            if isinstance(value, _VALUES):
                found[name], name = value, ""
        elif step.opname != "EXTENDED_ARG":
            name = ""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= _read(inner, scope)
    return found


def _is_known(value: Any) -> bool:
    """What counts by name, and Python's own modules, which hold what differs between processes."""
    home = value.__name__ if isinstance(value, types.ModuleType) else type(value).__module__
    if isinstance(value, type | types.FunctionType):
        home = value.__module__
    top = str(home).partition(".")[0]
    return top in _KNOWN or (isinstance(value, types.ModuleType) and top in sys.stdlib_module_names)


def _known_name(value: Any) -> str | None:
    """The name under which a package that is known by name holds this very function or class."""
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(home, str) and isinstance(name, str) and home.partition(".")[0] in _KNOWN:
        with suppress(AttributeError, KeyError):
            return f"{home}:{name}" if attrgetter(name)(sys.modules[home]) is value else None
    return None


_KNOWN = {"builtins", "math", "operator", "functools", "typing", "abc", "enum", "numpy", "torch", "smoothcert"}
_VALUES = (bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset, Tensor, np.ndarray, nn.Module)
_REGISTERS = {"_parameters", "_buffers", "_modules"}  # of another type in some versions of torch; their order counts
_BOOKKEEPING = vars(nn.Module()).keys() - _REGISTERS
_GRAPH_BOOKKEEPING = vars(fx.GraphModule(nn.Module(), fx.Graph())).keys() - _REGISTERS
_FRAME = {*vars(types.new_class("_")), "__annotations__", "_abc_impl", "__dataclass_fields__", "__dataclass_params__"}
_BUFFER = {"persistent", "_is_buffer"}  # what nn.Buffer adds to a tensor
_FUNCTION = ("__module__", "__qualname__", "__code__", "__defaults__", "__kwdefaults__", "__dict__")
_BYTECODE = ("code", "consts", "names", "varnames", "freevars", "argcount", "kwonlyargcount", "flags", "exceptiontable")
_ATOMS: dict[type, Callable[[Any], bytes]] = {
    int: lambda value: b"%x" % value,
    bytes: bytes,
    torch.device: lambda _: b"",  # where, not what
    **dict.fromkeys((str, bool, float, complex, type(None), type(...), torch.dtype), lambda it: repr(it).encode()),
}
_PARTS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((dict, OrderedDict), lambda value: tuple(value.items())),
    **dict.fromkeys((slice, range), attrgetter("start", "stop", "step")),
    property: attrgetter("fget", "fset", "fdel"),
    **dict.fromkeys((staticmethod, classmethod), attrgetter("__func__")),
    functools.cached_property: attrgetter("func"),
    functools.partial: attrgetter("func", "args", "keywords", "__dict__"),
    types.FunctionType: _of_function,
    types.CodeType: attrgetter(*(f"co_{part}" for part in _BYTECODE)),
    types.MethodType: attrgetter("__func__", "__self__"),
    types.BuiltinFunctionType: attrgetter("__self__", "__module__", "__qualname__"),
    **dict.fromkeys((types.MethodDescriptorType, types.WrapperDescriptorType), attrgetter("__objclass__", "__name__")),
    **dict.fromkeys((torch.no_grad, torch.inference_mode, torch.autocast), vars),
}
