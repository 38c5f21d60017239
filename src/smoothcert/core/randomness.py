"""Randomness that can be replayed: the noise of a block is a function of what names the block, and of nothing else.

Not of the batch size, the worker, the order of inputs, or what was drawn before. So votes can be drawn again by
someone who does not trust us, an interrupted run goes on as if nothing had happened, and two inputs, purposes or
blocks never share a stream.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

BLOCK = 128
"""Draws in a block. Part of what is replayed: changing it changes every noise."""

_WORDS = 624  # state of the Mersenne Twister, 32-bit words
_HEADER = struct.pack("<QiiQ", 0, 1, 1, 0)  # torch's layout: seed, left, seeded, next; then the words as 64-bit
_STATE_BYTES = 5056


def generator(
    seed: int, input_id: str, purpose: str, block: int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """The generator of one block.

    On a CPU the whole state of the Mersenne Twister is filled from SHAKE-256 of the block's name: `manual_seed` keeps
    32 bits only, and among a few hundred thousand blocks some would be equal. Other devices take a 63-bit seed.
    """
    import torch  # noqa: PLC0415 (rooms without torch name draws, too)

    name = hashlib.shake_256(f"smoothcert-1/{seed}/{input_id}/{purpose}/{block}".encode())
    where = torch.device(device)
    out = torch.Generator(where)
    if where.type != "cpu":
        return out.manual_seed(int.from_bytes(name.digest(8), "little") >> 1)
    words = np.frombuffer(name.digest(4 * _WORDS), dtype="<u4").astype("<u8")
    state = (_HEADER + words.tobytes()).ljust(_STATE_BYTES, b"\0")
    out.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    return out


def input_id(x: torch.Tensor) -> str:
    """The name of an input is its content: shape and float32 bytes. Equal inputs have equal noise, others never."""
    import torch  # noqa: PLC0415

    content = x.detach().to("cpu", torch.float32).contiguous() + 0.0  # -0.0 is 0.0
    digest = hashlib.blake2b(repr(tuple(content.shape)).encode(), digest_size=16)
    digest.update(content.numpy().tobytes())
    return digest.hexdigest()
