"""Reads a pickle of plain values and integer arrays without running anything that stands in it.

A pickle is a program that may call whatever it can name. Here the only names it can reach are the recorders below. They
keep what numpy's reconstruction functions would have been given; the array is then made from the recorded bytes after
its type was checked. numpy's own functions are not admitted, because a forged dtype makes them read bytes as pointers.
"""

import io
import pickle
import pickletools
import re
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

# Each recorder is a class with a __setstate__ that needs an instance: the opcode BUILD on the class itself, which could
# otherwise set attributes of it, is a TypeError.


class _Dtype:
    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = _text(code), "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])

    def checked(self) -> np.dtype[Any]:
        if not re.fullmatch("[iu][1248]", self.code) or self.order not in ("|", "<", ">", "="):
            raise ValueError(f"an array of type {self.order}{self.code} stands where integers are expected")
        return np.dtype(self.order + self.code)


class _Array:
    """Stands for numpy.ndarray and its _reconstruct: what matters arrives through __setstate__."""

    def __init__(self, *_: object) -> None:
        self.parts: tuple[Any, Any, Any, str] = (b"", None, (), "C")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, fortran, raw = state
        self.parts = (raw, dtype, shape, "F" if fortran else "C")


class _Buffer(_Array):
    """Stands for numpy's _frombuffer(buffer, dtype, shape, order), which protocol 5 uses."""

    def __init__(self, *parts: Any) -> None:
        raw, dtype, shape, order = parts
        self.parts = (raw, dtype, shape, _text(order))


def _latin1(budget: int) -> type:
    """Stands for codecs.encode(text, "latin1"), the way Python 3 writes bytes in old protocols.

    All calls together make at most `budget` bytes: a text that stands once in a pickle may be named a million times.
    """

    class Latin1(bytes):
        def __new__(cls, text: str, _encoding: str) -> "Latin1":
            nonlocal budget
            budget -= len(text)
            if budget < 0:
                raise pickle.UnpicklingError("it unpacks to more bytes than it has")
            return super().__new__(cls, text.encode("latin1"))

        def __setstate__(self, state: object) -> None:
            raise TypeError("bytes have no state")

    return Latin1


class _InertUnpickler(pickle.Unpickler):
    admitted: ClassVar[dict[str, type]] = {
        "numpy.ndarray": _Array,
        "numpy.dtype": _Dtype,
        "numpy.core.multiarray._reconstruct": _Array,
        "numpy._core.multiarray._reconstruct": _Array,
        "numpy.core.numeric._frombuffer": _Buffer,
        "numpy._core.numeric._frombuffer": _Buffer,
    }

    def __init__(self, raw: bytes) -> None:
        super().__init__(io.BytesIO(raw), encoding="bytes")
        self._latin1 = _latin1(len(raw))

    def find_class(self, module: str, name: str) -> type:
        if (module, name) == ("_codecs", "encode"):
            return self._latin1
        if f"{module}.{name}" not in self.admitted:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and only arrays and plain values are admitted")
        return self.admitted[f"{module}.{name}"]


def load_plain(raw: bytes) -> Any:
    """Return the pickled value, made of plain Python values and recorded arrays (see `as_array`).

    Guarantees: nothing named in the pickle is imported or called. A name outside the list, or damage, raises some
    exception.
    """
    for opcode, argument, _ in pickletools.genops(raw):
        # The unpickler's memo is a table up to the largest index: one damaged byte may ask for gigabytes.
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= argument <= len(raw):  # type: ignore[operator]
            raise pickle.UnpicklingError("it counts more values than it has bytes")
    return _InertUnpickler(raw).load()


def as_array(value: object) -> npt.NDArray[Any]:
    """Return a recorded array, or a list of integers, as a read-only or new integer array; ValueError otherwise."""
    if isinstance(value, _Array):
        raw, dtype, shape, order = value.parts
        if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes | bytearray) or order not in ("C", "F"):
            raise ValueError("an array in it is incomplete")
        return np.frombuffer(raw, dtype.checked()).reshape(shape, order="F" if order == "F" else "C")
    if isinstance(value, list) and all(type(item) is int for item in value):
        return np.array(value, dtype=np.int64)
    raise ValueError("something else stands where an array of integers is expected")


def _text(value: object) -> str:
    """Text that Python 2 wrote arrives as bytes."""
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise ValueError("something else stands where text is expected")
