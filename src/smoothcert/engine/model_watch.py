"""Has the model changed since it was compiled? One cheap look per call, instead of a fingerprint.

A fingerprint hashes all that decides what a model computes, which takes longer than a hundred draws of a small network.
This looks at what can change without anybody saying so: attributes and hooks by identity, tensors by identity, version,
place and a checksum of their bytes, so that an edit of `parameter.data` is noticed, too.
"""

from __future__ import annotations

import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as every_module

Array = np.ndarray[Any, Any]

_WELL_KNOWN = {"torch", "numpy", "smoothcert", "builtins", "typing", "abc", "collections"}
_CONTAINERS = (Tensor, np.ndarray, dict, list, tuple, set, nn.Module)


class ModelWatch:
    """What a module was at one moment, and whether it still is.

    Looked at are the attributes of every module and plain object that can be reached through modules and containers,
    the hooks that run on all modules, and, of classes that are neither torch's nor ours, their attributes and the
    globals that their methods name. What other functions reach is not looked at.
    """

    def __init__(self, model: nn.Module) -> None:
        self._seen: dict[int, object] = {}  # holds the objects, lest an id be given away again
        self._empty: list[Any] = []
        self._mappings: list[tuple[Mapping[Any, Any], list[Any], tuple[Any, ...]]] = []
        self._lists: list[tuple[list[Any], tuple[Any, ...]]] = []
        self._sets: list[tuple[set[Any], frozenset[Any]]] = []
        self._globals: list[tuple[Mapping[str, Any], str, Any]] = []
        self._tensors: list[tuple[Callable[[], Any], Any, Callable[[], int], int]] = []
        waiting: list[Any] = [every_module._global_forward_hooks, every_module._global_forward_pre_hooks, model]
        while waiting:
            value = waiting.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                waiting += self._add(value)

    def unchanged(self) -> bool:
        """Whether all that was looked at is as it was."""
        if any(self._empty):
            return False
        for mapping, keys, values in self._mappings:
            if list(mapping) != keys or not all(map(is_, mapping.values(), values)):
                return False
        for items, held in self._lists:
            if len(items) != len(held) or not all(map(is_, items, held)):
                return False
        if any(scope.get(name) is not held for scope, name, held in self._globals):
            return False
        if any(members != held for members, held in self._sets):
            return False
        # A checksum reads memory that the state before it says is still there.
        return all(state() == then and checksum() == total for state, then, checksum, total in self._tensors)

    def _add(self, value: Any) -> Iterable[Any]:
        """Keep what a value is now; returns what is to be looked at because of it."""
        if isinstance(value, Tensor | np.ndarray):
            state, checksum = _readers(value)
            self._tensors.append((state, state(), checksum, checksum()))
        elif isinstance(value, dict):
            return self._add_mapping(value)
        elif isinstance(value, list):
            self._lists.append((value, tuple(value)))
            return value
        elif isinstance(value, set):
            self._sets.append((value, frozenset(value)))
        elif isinstance(value, tuple):
            return value
        elif isinstance(value, type):
            return self._add_class(value)
        elif (hasattr(value, "__dict__") and not callable(value)) or isinstance(value, nn.Module):
            return (vars(value), type(value))
        return ()

    def _add_mapping(self, value: Mapping[Any, Any]) -> Iterable[Any]:
        if not value:
            self._empty.append(value)
        else:
            self._mappings.append((value, list(value), tuple(value.values())))
        return value.values()

    def _add_class(self, kind: type) -> Iterable[Any]:
        if kind.__module__.partition(".")[0] in _WELL_KNOWN:
            return ()
        found: list[Any] = [*kind.__bases__]
        self._mappings.append((vars(kind), list(vars(kind)), tuple(vars(kind).values())))
        for part in tuple(vars(kind).values()):
            if isinstance(part, _CONTAINERS):
                found.append(part)
            elif isinstance(part, types.FunctionType):
                scope = part.__globals__
                for name in sorted({name for name in _names(part.__code__) if name in scope}):
                    self._globals.append((scope, name, scope[name]))
                    found += [scope[name]] if isinstance(scope[name], _CONTAINERS) else []
        return found


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _readers(value: Tensor | Array) -> tuple[Callable[[], Any], Callable[[], int]]:
    """What can be said of a tensor or array at once, and a checksum of its bytes."""
    if isinstance(value, np.ndarray):
        return (
            lambda: (value.__array_interface__["data"], value.shape, value.strides, value.dtype),
            lambda: zlib.crc32(value.tobytes()),
        )
    if value.is_inference():  # such a tensor has no version
        return lambda: (value.data_ptr(), value.shape, value.stride(), value.dtype), _checksum(value)
    return lambda: (value._version, value.data_ptr(), value.shape, value.stride(), value.dtype), _checksum(value)


def _checksum(tensor: Tensor) -> Callable[[], int]:
    plain = tensor.detach()
    if plain.device.type == "cpu" and plain.numel() and _dense(plain):
        view = plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy().data
        return lambda: zlib.crc32(view)

    def slowly() -> int:
        numbers = plain.contiguous().flatten().view(torch.uint8)
        if plain.device.type == "cpu":
            return zlib.crc32(numbers.numpy().data)
        places = torch.arange(1, 2 * len(numbers), 2, device=plain.device)  # odd: no byte is multiplied by 0
        return int((numbers.long() * places).sum())

    return slowly


def _dense(tensor: Tensor) -> bool:
    """Whether its numbers fill one piece of memory, in any order: channels-last, transposed ..."""
    size = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1:
            if stride != size:
                return False
            size *= length
    return True
