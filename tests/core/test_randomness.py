"""The random bits of a draw depend on its name alone, and no two draws share any."""

import hashlib
import struct
from typing import Any

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from smoothcert.core.randomness import FURTHER, MOST_PLACES, RowStream, generator, input_id
from smoothcert.noise import Gaussian


def test_the_state_really_is_the_one_we_filled_in() -> None:
    """torch's numbers equal numpy's Mersenne Twister started from the same 624 words: the layout is understood."""
    words = np.frombuffer(hashlib.shake_256(b"smoothcert-1/3/abc/bound/5").digest(2496), dtype="<u4")
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": words.astype(np.uint32), "pos": 624}}
    ours = torch.randint(0, 2**24, (2000,), generator=generator(3, "abc", "bound", 5))
    assert np.array_equal(ours.numpy(), twister.random_raw(2000) % 2**24)


def test_same_name_same_numbers_any_other_name_others() -> None:
    names = [
        (0, "a", "bound", 0),
        (1, "a", "bound", 0),
        (0, "b", "bound", 0),
        (0, "a", "choose", 0),
        (0, "a", "bound", 1),
    ]
    first = [torch.randn(64, generator=generator(*name)) for name in names]
    again = [torch.randn(64, generator=generator(*name)) for name in reversed(names)][::-1]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert len({tuple(draw.tolist()) for draw in first}) == len(names)


def test_no_two_blocks_share_a_stream() -> None:
    """`manual_seed` keeps 32 bits: 100_000 blocks would hold a pair of equal ones with probability 0.69."""
    seen = {
        torch.randint(0, 2**62, (2,), generator=generator(0, "x", "bound", block)).numpy().tobytes()
        for block in range(20_000)
    }
    assert len(seen) == 20_000
    low = torch.Generator().manual_seed(7)
    high = torch.Generator().manual_seed(7 + 2**32)
    assert torch.equal(torch.randn(8, generator=low), torch.randn(8, generator=high)), "torch now keeps all 64 bits"


def test_input_id_is_the_content() -> None:
    x = torch.rand(1, 4, 4)
    assert input_id(x) == input_id(x.clone().double())
    assert input_id(x) == input_id(x.expand(3, 1, 4, 4)[1])
    assert input_id(x) != input_id(x.view(4, 4))
    y = x.clone()
    y[0, 0, 0] = torch.nextafter(y[0, 0, 0], torch.tensor(2.0))
    assert input_id(x) != input_id(y)


def test_a_zero_has_no_sign_in_the_name_of_an_input() -> None:
    assert input_id(torch.tensor([0.0, 1.0])) == input_id(torch.tensor([-0.0, 1.0]))


def test_bits_are_aes_of_row_and_place() -> None:
    """Against the cipher itself, counter by counter: anybody can compute the bits of a draw from its name."""
    stream = RowStream(3, "abc", "bound")
    key = hashlib.shake_256(b"smoothcert-2/3/abc/bound").digest(16)
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    bits = stream.bits(2**40, 3, 50)
    assert bits.shape == (3, 64), "whole blocks"
    for row, place in ((0, 0), (0, 3), (2, 1)):
        wanted = cipher.update(struct.pack("<QQ", 2**40 + row, place))
        assert bits[row, 16 * place : 16 * place + 16].tobytes() == wanted
    (word,) = stream.further(np.array([5]), np.array([1000]), 2)
    wanted = cipher.update(struct.pack("<QQ", 5, 2**63 + (1000 << 16) + 2))
    assert int(word) == int.from_bytes(wanted[:8], "little")


def test_any_row_by_itself() -> None:
    stream = RowStream(0, "x", "bound")
    whole = stream.bits(0, 300, 99)
    for first, rows in ((0, 1), (7, 1), (299, 1), (5, 120), (128, 3)):
        assert np.array_equal(RowStream(0, "x", "bound").bits(first, rows, 99), whole[first : first + rows])
    assert np.array_equal(stream.bits(0, 300, 10)[:, :10], whole[:, :10]), "longer rows begin alike"


def test_ranges_of_counters_never_meet() -> None:
    """In whole numbers: the first bits of a row lie below 2^63, further ones of (number, turn) above, each at its own.

    What does not fit is refused, so that nothing wraps around.
    """
    most = 2**47
    assert (2**63, most) == (FURTHER, MOST_PLACES)
    ends = [(number, turn) for number in (0, 1, most - 1) for turn in (0, 1, 2**16 - 1)]
    places = [FURTHER + (number << 16) + turn for number, turn in ends]
    assert len(set(places)) == len(places)
    assert min(places) == 2**63 > most
    assert max(places) == 2**64 - 1
    stream = RowStream(0, "x", "bound")
    for number, turn in ((most, 0), (-1, 0), (0, 2**16), (0, -1)):
        with pytest.raises(ValueError, match="no further bits"):
            stream.further(np.array([0]), np.array([number]), turn)
    for first, size in ((-1, 1), (2**63, 1), (0, 16 * most + 1)):
        with pytest.raises(ValueError, match="there are no"):
            stream.bits(first, 1, size)


def test_no_counter_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """All counters of a thousand exact draws, further bits included, in parts of odd sizes."""
    seen: list[bytes] = []
    once = RowStream._encrypt

    def noting(self: RowStream, counters: np.ndarray[Any, Any], room: np.ndarray[Any, Any]) -> Any:
        flat = counters.reshape(-1, 2)
        seen.extend(self.key + row.tobytes() for row in flat)
        return once(self, counters, room)

    monkeypatch.setattr(RowStream, "_encrypt", noting)
    noise, x, first = Gaussian(1.0, grid=1 / 255), torch.rand(37), 0
    for rows in (1, 16, 128, 355, 500):
        for purpose in ("choose", "bound"):
            noise.draw_rows(x, RowStream(0, "x", purpose), first, torch.empty(rows, 37))
        first += rows
    assert len(seen) == len(set(seen)) > 2 * 1000 * 5
    assert any(int.from_bytes(one[-8:], "little") >= FURTHER for one in seen)


def test_streams_of_other_names_are_others_and_unrelated() -> None:
    names = [(0, "a", "bound"), (1, "a", "bound"), (0, "b", "bound"), (0, "a", "choose"), (10, "a", "bound")]
    streams = [RowStream(*name) for name in names]
    assert len({stream.key for stream in streams}) == len(names)
    bits = np.stack([np.unpackbits(stream.bits(0, 64, 1024)) for stream in streams]).astype(np.int64)
    n = bits.shape[1]
    assert np.abs(bits.sum(axis=1) - n / 2).max() < 5 * np.sqrt(n) / 2
    for i in range(len(names)):
        for j in range(i):
            assert abs(int((bits[i] ^ bits[j]).sum()) - n / 2) < 5 * np.sqrt(n) / 2
    rows = bits.reshape(len(names), 64, -1)[0]
    agreeing = (rows[:-1] == rows[1:]).mean(axis=1)
    assert np.abs(agreeing - 0.5).max() < 5 * 0.5 / np.sqrt(rows.shape[1]), "rows that follow each other"
