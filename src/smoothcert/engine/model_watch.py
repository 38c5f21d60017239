"""Has the model changed since it was compiled? One cheap look per call, instead of a fingerprint.

A fingerprint hashes all that decides what a model computes, which takes longer than a hundred draws of a small network.
This looks at what can change without anybody saying so: attributes and hooks by identity, tensors by identity, version,
place and a checksum of their bytes, so that an edit of `parameter.data` is noticed, too.

A look allocates next to nothing that Python's collector tracks: else every other look would set it off, and going
through all objects of a process takes longer than a hundred looks.
"""

from __future__ import annotations

import secrets
import types
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import eq, is_, methodcaller
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor, nn
from torch.nn.modules import module as every_module

Array = np.ndarray[Any, Any]

_values_of = methodcaller("values")

_WELL_KNOWN = {"torch", "numpy", "smoothcert", "builtins", "typing", "abc", "collections"}
_CONTAINERS = (Tensor, np.ndarray, dict, list, tuple, set, nn.Module)

_KEY = secrets.token_bytes(16)
"""Of a checksum (GMAC, that of AES in Galois/counter mode), which is faster than a CRC: other bytes have another one,
but for once in 2^100."""


class ModelWatch:
    """What a module was at one moment, and whether it still is.

    Looked at are the attributes of every module and plain object that can be reached through modules and containers,
    the hooks that run on all modules, and, of classes that are neither torch's nor ours, their attributes and the
    globals that their methods name. What other functions reach is not looked at.
    """

    def __init__(self, model: nn.Module) -> None:
        self._seen: dict[int, object] = {}  # holds the objects, lest an id be given away again
        self._empty: list[Any] = []
        # Contents one behind the other, so that all are compared in one go: objects by identity, sizes by number, names
        # as they read, which is three times faster.
        self._mappings: list[Mapping[Any, Any]] = []
        self._named: list[Mapping[str, Any]] = []
        self._names: list[str] = []
        self._others_keyed: list[Mapping[Any, Any]] = []
        self._lists: list[list[Any]] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._items: list[Any] = []
        self._sets: list[tuple[set[Any], frozenset[Any]]] = []
        self._globals: list[tuple[Mapping[str, Any], str, Any]] = []
        self._tensors: list[Tensor] = []
        self._bytes: list[memoryview] = []  # of those on the CPU
        self._others: list[Tensor | Array] = []  # whose bytes are not in one piece of memory here
        waiting: list[Any] = [every_module._global_forward_hooks, every_module._global_forward_pre_hooks, model]
        while waiting:
            value = waiting.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                waiting += self._add(value)
        self._sizes = self._count()
        self._places = list(map(_place, self._tensors))
        self._kinds = [(other.shape, other.dtype) for other in self._others]
        self._sums = self._read()

    def unchanged(self) -> bool:
        """Whether all that was looked at is as it was."""
        if any(self._empty) or self._count() != self._sizes:
            return False
        every = chain.from_iterable
        if list(every(self._named)) != self._names:
            return False
        values = every(map(_values_of, self._mappings))
        held = ((every(self._others_keyed), self._keys), (values, self._values), (every(self._lists), self._items))
        if not all(all(map(is_, now, then)) for now, then in held):
            return False
        if any(scope.get(name) is not held for scope, name, held in self._globals):
            return False
        if any(members != held for members, held in self._sets):
            return False
        # First the places: only then is the memory that is read still there.
        return (
            all(map(eq, map(_place, self._tensors), self._places))
            and [(other.shape, other.dtype) for other in self._others] == self._kinds
            and self._read() == self._sums
        )

    def _count(self) -> list[int]:
        return [*map(len, self._mappings), *map(len, self._lists)]

    def _read(self) -> list[int | bytes]:
        """Checksums: one of all bytes that are in one piece, and those of the others."""
        gmac = Cipher(algorithms.AES(_KEY), modes.GCM(bytes(12))).encryptor()
        for content in self._bytes:
            gmac.authenticate_additional_data(content)
        gmac.finalize()
        return [gmac.tag, *map(_checksum, self._others)]

    def _add(self, value: Any) -> Iterable[Any]:
        """Keep what a value is now; returns what is to be looked at because of it."""
        if isinstance(value, Tensor | np.ndarray):
            self._add_numbers(value)
        elif isinstance(value, dict):
            return self._add_mapping(value)
        elif isinstance(value, list):
            self._lists.append(value)
            self._items += value
            return tuple(value)
        elif isinstance(value, set):
            self._sets.append((value, frozenset(value)))
        elif isinstance(value, tuple):
            return value
        elif isinstance(value, type):
            return self._add_class(value)
        elif (hasattr(value, "__dict__") and not callable(value)) or isinstance(value, nn.Module):
            # TorchScript keeps its weights where `vars` does not look.
            hidden = isinstance(value, torch.jit.ScriptModule)
            return (*value.parameters(), *value.buffers()) if hidden else (vars(value), type(value))
        return ()

    def _add_numbers(self, value: Tensor | Array) -> None:
        tracked = isinstance(value, Tensor) and not value.is_inference()  # else it has no version
        if isinstance(value, Tensor) and tracked:
            self._tensors.append(value)
        if isinstance(value, Tensor) and tracked and value.device.type == "cpu" and value.numel() and _dense(value):
            self._bytes.append(value.detach().as_strided((value.numel(),), (1,)).view(torch.uint8).numpy().data)
        else:
            self._others.append(value)

    def _add_mapping(self, value: Mapping[Any, Any]) -> Iterable[Any]:
        if not value:
            self._empty.append(value)
        else:
            self._keep(value)
        return value.values()

    def _keep(self, mapping: Mapping[Any, Any]) -> None:
        self._mappings.append(mapping)
        if all(type(key) is str for key in mapping):
            self._named.append(mapping)
            self._names += mapping
        else:
            self._others_keyed.append(mapping)
            self._keys += mapping
        self._values += mapping.values()

    def _add_class(self, kind: type) -> Iterable[Any]:
        if kind.__module__.partition(".")[0] in _WELL_KNOWN:
            return ()
        found: list[Any] = [*kind.__bases__]
        self._keep(vars(kind))
        for part in tuple(vars(kind).values()):
            if isinstance(part, _CONTAINERS):
                found.append(part)
            elif isinstance(part, types.FunctionType):
                scope = part.__globals__
                for name in sorted({name for name in _names(part.__code__) if name in scope}):
                    self._globals.append((scope, name, scope[name]))
                    found += [scope[name]] if isinstance(scope[name], _CONTAINERS) else []
        return found


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """What a tensor says of itself at once."""
    return tensor._version, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _checksum(value: Tensor | Array) -> int:
    if isinstance(value, np.ndarray):
        return zlib.crc32(value.tobytes())
    numbers = value.detach().contiguous().flatten().view(torch.uint8)
    if value.device.type == "cpu":
        return zlib.crc32(numbers.numpy().data)
    places = torch.arange(1, 2 * len(numbers), 2, device=value.device)  # odd: no byte is multiplied by 0
    return int((numbers.long() * places).sum())


def _dense(tensor: Tensor) -> bool:
    """Whether its numbers fill one piece of memory, in any order: channels-last, transposed ..."""
    size = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1:
            if stride != size:
                return False
            size *= length
    return True
