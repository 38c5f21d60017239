"""Named tensors and a few fields of JSON in one safetensors file, every byte of which is under a digest.

The fields are one text under a metadata key, and begin with the digest of the whole file (`core.sealed`): a header, a
name, a number or a weight that was changed is noticed at reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from smoothcert.core.sealed import BLANK, is_sealed, seal

MOST_HEADER = 2**24  # bytes; a network of a thousand tensors needs a hundredth
# What safetensors and torch raise on bytes that were not made by them.
DAMAGE = (SafetensorError, ValueError, KeyError, TypeError, AssertionError, RuntimeError, RecursionError, MemoryError)


def pack(tensors: Mapping[str, Tensor], key: str, fields: Mapping[str, Any]) -> bytes:
    """The file; equal tensors and fields give equal bytes. Fields must be JSON, else TypeError or ValueError."""
    text = json.dumps({"digest": BLANK} | dict(fields), allow_nan=False)
    return seal(safetensors.torch.save(dict(tensors), metadata={key: text}), _mark(key))


def unpack(raw: bytes, key: str) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """Tensors and fields of a safetensors file, sealed or not; None where it has no such fields.

    Bytes that are no whole safetensors file raise one of `DAMAGE`; what is allocated is bounded by their number.
    """
    size = int.from_bytes(raw[:8], "little")
    if not 2 <= size <= min(MOST_HEADER, len(raw) - 8):
        raise ValueError("the length of its header is not that of a safetensors file")
    # Copies, because what safetensors returns may lie at odd addresses of a buffer it shares.
    tensors = {name: tensor.clone() for name, tensor in safetensors.torch.load(raw).items()}
    try:
        fields = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"][key])
    except (KeyError, TypeError, ValueError, RecursionError):
        fields = None
    return tensors, fields if isinstance(fields, dict) else None


def is_whole(raw: bytes, key: str) -> bool:
    """Whether these are the bytes that `pack` gave, every one of them."""
    return is_sealed(raw, _mark(key))


def _mark(key: str) -> bytes:
    """What stands before the digest, and, since quotes inside of texts are escaped, nowhere else."""
    return json.dumps({key: '{"digest": "'}, separators=(",", ":"))[1:-2].encode()
