"""Randomness that can be replayed: the noise of a draw is a function of what names the draw, and of nothing else.

Not of the batch size, the worker, the order of inputs, or what was drawn before. So votes can be drawn again by
someone who does not trust us, an interrupted run goes on as if nothing had happened, and two inputs, purposes or
draws never share random bits.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from cryptography.hazmat.primitives.ciphers import CipherContext

BLOCK = 128
"""Draws that share a generator of torch, where a noise is drawn by one. Changing it changes every such noise."""

BY_ROW = "AES-128, by row"
"""How `RowStream` makes bits, as records say it."""

BY_BLOCK = f"torch generator, by block of {BLOCK}"
"""How noises are drawn that only know generators, and all noises on devices other than a CPU."""

Counters = NDArray[np.uint64]
Whole = NDArray[np.int64]

AES_BYTES = 16
FURTHER = 1 << 63
TURN_BITS = 16
MOST_PLACES = 1 << (63 - TURN_BITS)
"""Numbers that one row may have at most."""

_WORDS = 624  # state of the Mersenne Twister, 32-bit words
_HEADER = struct.pack("<QiiQ", 0, 1, 1, 0)  # torch's layout: seed, left, seeded, next; then the words as 64-bit
_STATE_BYTES = 5056


class Scratch(threading.local):
    """Arrays that a thread uses again and again: memory that the system must hand out anew costs more than the bits."""

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[Any]] = {}
        self._places: Counters = np.empty((0, 0, 2), dtype="<u8")

    def array(self, name: str, size: int, dtype: str) -> NDArray[Any]:
        """`size` numbers of one type, with any content; the same memory for the same name."""
        kept = self._kept.get(name)
        if kept is None or len(kept) < size:
            kept = self._kept[name] = np.empty(size, dtype=dtype)
        return kept[:size]

    def places(self, rows: int, blocks: int) -> Counters:
        """Counters of the first `blocks` places of `rows` rows: the rows with any content, the places filled in."""
        kept = self._places
        if len(kept) < rows or kept.shape[1] != blocks:
            kept = self._places = _places(rows, blocks)
        return kept[:rows]


def _places(rows: int, blocks: int) -> Counters:
    counters = np.empty((rows, blocks, 2), dtype="<u8")
    counters[:, :, 1] = np.arange(blocks, dtype="<u8")
    return counters


@dataclass(frozen=True)
class RowStream:
    """The random bits of the draws of one input for one purpose, by row: row r is draw number r.

    AES in counter mode, under a key that is SHAKE-256 of (seed, input, purpose). A counter is a pair of 64-bit numbers,
    (row, place): place p < 2^63 has bits 128 p to 128 p + 127 of the row; the places from 2^63 on have further bits of
    single numbers. So no two rows, and no two numbers of a row, ever share a counter, and any row can be drawn by
    itself. Whoever does not know the seed cannot tell the bits from coin tosses. One thread at a time may use it.
    """

    seed: int
    input_id: str
    purpose: str

    @cached_property
    def key(self) -> bytes:
        """Of the cipher."""
        return hashlib.shake_256(f"smoothcert-2/{self.seed}/{self.input_id}/{self.purpose}".encode()).digest(16)

    def bits(self, first: int, rows: int, size: int, scratch: Scratch | None = None) -> NDArray[np.uint8]:
        """The first bits of rows `first`, `first + 1`, ...: (rows, at least `size` bytes).

        With `scratch`, they are there until it is used again.
        """
        if first < 0 or first + rows > FURTHER:
            raise ValueError(f"there are no rows {first} to {first + rows}")
        counters = _counters(np.arange(first, first + rows, dtype="<u8"), size, scratch)
        return self._encrypt(counters, _room(counters, scratch)).reshape(rows, -1)

    def further(self, rows: Whole, numbers: Whole, turn: int) -> NDArray[np.uint64]:
        """64 further bits of some numbers of some rows, (m,) each, for the `turn`-th time (from 0)."""
        counters = _further_counters(rows, numbers, turn)
        return self._encrypt(counters, _room(counters)).view("<u8")[::2]

    def generator(self, block: int, device: torch.device | str = "cpu") -> torch.Generator:
        """The generator of torch of one block of rows."""
        return generator(self.seed, self.input_id, self.purpose, block, device)

    def _encrypt(self, counters: NDArray[Any], room: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Each counter by itself: an array of counters, encrypted block by block, is counter mode with any counters."""
        self._cipher.update_into(counters.reshape(-1).view(np.uint8).data, room.data)
        return room[: counters.nbytes]

    @cached_property
    def _cipher(self) -> CipherContext:
        return _ciphers.of(self)


@dataclass(frozen=True)
class JoinedRows:
    """Rows of several streams, one behind another, so that what follows from their bits is computed in one go.

    Args:
        parts: (stream, first, rows): rows `first`, `first + 1`, ... of the stream.
    """

    parts: tuple[tuple[RowStream, int, int], ...]

    def bits(self, first: int, rows: int, size: int, scratch: Scratch | None = None) -> NDArray[np.uint8]:
        """As of a stream; rows are counted through all parts."""
        counters = _counters(self._rows[first : first + rows], size, scratch)
        room = _room(counters, scratch)
        width = counters[0].nbytes
        for stream, a, b in self._streams(np.clip(self._starts - first, 0, rows)):
            stream._encrypt(counters[a:b], room[a * width :])
        return room[: counters.nbytes].reshape(rows, width)

    def further(self, rows: Whole, numbers: Whole, turn: int) -> NDArray[np.uint64]:
        """As of a stream, of rows in ascending order."""
        counters = _further_counters(self._rows[rows], numbers, turn)
        room = _room(counters)
        for stream, a, b in self._streams(rows.searchsorted(self._starts)):
            stream._encrypt(counters[a:b], room[a * AES_BYTES :])
        return room[: counters.nbytes].view("<u8")[::2]

    def _streams(self, edges: Whole) -> Iterator[tuple[RowStream, int, int]]:
        """Each stream with where its counters begin and end, if it has any."""
        for (stream, _, _), (a, b) in zip(self.parts, pairwise(edges.tolist()), strict=True):
            if a < b:
                yield stream, a, b

    @cached_property
    def _rows(self) -> Whole:
        """The number of each row in its stream."""
        return np.concatenate([np.arange(first, first + rows) for _, first, rows in self.parts])

    @cached_property
    def _starts(self) -> Whole:
        """Where each part begins, and the end."""
        return np.cumsum([0, *(rows for _, _, rows in self.parts)])


def _counters(row: NDArray[Any], size: int, scratch: Scratch | None) -> Counters:
    """Of the first `size` bytes of some rows: (rows, blocks, 2)."""
    blocks = -(-size // AES_BYTES)
    if blocks > MOST_PLACES:
        raise ValueError(f"there are no {size} bytes of a row")
    counters = _places(len(row), blocks) if scratch is None else scratch.places(len(row), blocks)
    counters[:, :, 0] = row[:, None]
    return counters


def _further_counters(rows: Whole, numbers: Whole, turn: int) -> Whole:
    """Of 64 further bits of some numbers of some rows: (m, 2)."""
    if not 0 <= turn < 1 << TURN_BITS or (len(numbers) and not 0 <= int(numbers.max()) < MOST_PLACES):
        raise ValueError(f"there are no further bits for the {turn}-th time of numbers {numbers}")
    counters = np.empty((len(rows), 2), dtype="<i8")
    counters[:, 0] = rows
    np.left_shift(numbers, TURN_BITS, out=counters[:, 1])
    counters[:, 1] += turn - FURTHER  # as a number without a sign: turn + FURTHER
    return counters


def _room(counters: NDArray[Any], scratch: Scratch | None = None) -> NDArray[np.uint8]:
    """For what counters are encrypted to, and a little more that `update_into` wants to see."""
    new = np.empty if scratch is None else partial(scratch.array, "bits")
    return new(counters.nbytes + AES_BYTES - 1, "u1")


class _Ciphers(threading.local):
    """Ciphers that a thread has used last: making one takes longer than the bits of a few rows."""

    def __init__(self) -> None:
        self._kept: OrderedDict[RowStream, CipherContext] = OrderedDict()

    def of(self, stream: RowStream) -> CipherContext:
        """The cipher of a stream."""
        kept = self._kept.get(stream)
        if kept is None:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415 (as torch)

            kept = self._kept[stream] = Cipher(algorithms.AES(stream.key), modes.ECB()).encryptor()
            if len(self._kept) > KEPT_CIPHERS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(stream)
        return kept


_ciphers = _Ciphers()
KEPT_CIPHERS = 256


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
