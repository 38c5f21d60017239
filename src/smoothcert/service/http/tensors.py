"""Tensors of the Open Inference Protocol (KServe v2): in JSON, or as bytes behind the JSON."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.core.errors import InputError

DTYPES: dict[str, np.dtype[Any]] = {"FP32": np.dtype("<f4"), "UINT8": np.dtype("u1")}
"""What inputs may be: anything else would have to be rounded, and be another input."""
HEADER = "Inference-Header-Content-Length"
MOST_DEPTH = 8


def split_body(body: bytes, header: str | None) -> tuple[dict[str, Any], bytes]:
    """The JSON of a request and the bytes behind it."""
    length = len(body)
    if header is not None:
        if not header.isascii() or not header.isdecimal() or int(header) > length:
            raise InputError(f"{HEADER} must be the length of the JSON in front of the tensors, got {header[:20]!r}")
        length = int(header)
    try:
        content = json.loads(body[:length])
    except (ValueError, RecursionError):
        raise InputError("the body must be JSON, with the bytes of tensors behind it, if any") from None
    if not isinstance(content, dict):
        raise InputError("the body must be a JSON object with inputs")
    return content, body[length:]


def read_input(content: Mapping[str, Any], rest: bytes, most_rows: int, shape: Sequence[int]) -> npt.NDArray[Any]:
    """The one input tensor of a request, (B, ...); it must be as it says, before room is made for it."""
    inputs = content.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise InputError("inputs must be a list of one tensor, called input")
    one = inputs[0]
    if one.get("name") != "input":
        raise InputError(f"the tensor must be called input, got {str(one.get('name'))[:40]!r}")
    kind = one.get("datatype")
    if not isinstance(kind, str) or kind not in DTYPES:
        raise InputError(f"datatype of input must be {' or '.join(DTYPES)}, got {str(kind)[:40]!r}; convert it")
    said = one.get("shape")
    if not isinstance(said, list) or not all(type(size) is int for size in said):
        raise InputError("shape of input must be a list of whole numbers")
    if tuple(said) not in (tuple(shape), (*said[:1], *shape)) or not 1 <= _rows(said, shape) <= most_rows:
        raise InputError(
            f"shape of input must be [B, {', '.join(map(str, shape))}] with B from 1 to {most_rows}, got {said[:10]}"
        )
    numbers = _binary(one, rest, DTYPES[kind]) if rest or "data" not in one else _listed(one["data"], kind)
    if numbers.size != math.prod(said):
        raise InputError(f"input has {numbers.size} numbers, its shape says {math.prod(said)}")
    return numbers.reshape(said)


def _rows(said: Sequence[int], shape: Sequence[int]) -> int:
    return 1 if len(said) == len(shape) else said[0]


def _binary(one: Mapping[str, Any], rest: bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    parameters = one.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, Mapping) else None
    if type(size) is not int or size != len(rest) or size % dtype.itemsize:
        raise InputError(
            f"binary_data_size of input must be the number of bytes behind the JSON, {len(rest)}, got {size!r}"
        )
    return np.frombuffer(rest, dtype).copy()  # of its own: the bytes of a request are read-only


def _listed(data: Any, kind: str) -> npt.NDArray[Any]:
    flat: list[Any] = data if isinstance(data, list) else [data]
    for _ in range(MOST_DEPTH):
        if not any(isinstance(item, list) for item in flat):
            break
        flat = [number for item in flat for number in (item if isinstance(item, list) else [item])]
    if not all(type(number) in (int, float) for number in flat):
        raise InputError("data of input must be numbers, in lists")
    if kind == "UINT8" and not all(type(number) is int and 0 <= number <= 255 for number in flat):
        raise InputError("data of UINT8 must be whole numbers from 0 to 255")
    try:
        wide = np.array(flat, dtype=np.float64)
    except OverflowError:
        wide = np.array([math.inf])
    with np.errstate(over="ignore"):
        return wide.astype(DTYPES[kind])


Values = Sequence[str] | npt.NDArray[Any]
KINDS = {"i": "INT64", "f": "FP64", "b": "BOOL"}


def write_outputs(
    outputs: Mapping[str, Values], content: Mapping[str, Any], about: Mapping[str, Any]
) -> tuple[bytes, int | None]:
    """The body of a response and, if bytes stand behind it, the length of its JSON.

    Outputs as the request wants them: some by name, or all; each in bytes, or in JSON.
    """
    wanted = _wanted(outputs, content)
    tensors, blobs = [], []
    for name, binary in wanted.items():
        values = outputs[name]
        tensor: dict[str, Any] = {"name": name, "datatype": _kind(values), "shape": list(np.shape(values))}
        if binary:
            blobs.append(_bytes(values))
            tensor["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            tensor["data"] = list(values) if not isinstance(values, np.ndarray) else values.ravel().tolist()
        tensors.append(tensor)
    text = json.dumps({**about, "outputs": tensors}, separators=(",", ":")).encode()
    return text + b"".join(blobs), len(text) if blobs else None


def _wanted(outputs: Mapping[str, Values], content: Mapping[str, Any]) -> dict[str, bool]:
    parameters = content.get("parameters")
    everywhere = isinstance(parameters, Mapping) and parameters.get("binary_data_output") is True
    asked = content.get("outputs")
    if asked is None or asked == []:
        return dict.fromkeys(outputs, everywhere)
    if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
        raise InputError("outputs must be a list of objects, each with a name")
    found: dict[str, bool] = {}
    for one in asked:
        name, how = one.get("name"), one.get("parameters")
        if not isinstance(name, str) or name not in outputs:
            raise InputError(f"outputs may be {', '.join(outputs)}, got {str(name)[:40]!r}")
        own = how.get("binary_data") if isinstance(how, Mapping) else None
        found[name] = everywhere if own is None else own is True
    return found


def _kind(values: Values) -> str:
    return KINDS[values.dtype.kind] if isinstance(values, np.ndarray) else "BYTES"


def _bytes(values: Values) -> bytes:
    if isinstance(values, np.ndarray):
        kinds = {"i": "<i8", "f": "<f8", "b": "?"}
        return values.astype(kinds[values.dtype.kind]).tobytes()
    encoded = [value.encode() for value in values]
    return b"".join(struct.pack("<I", len(one)) + one for one in encoded)
