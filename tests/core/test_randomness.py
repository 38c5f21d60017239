"""The noise of a block depends on its name alone."""

import numpy as np
import torch

from smoothcert.core.randomness import generator, input_id


def test_the_state_really_is_the_one_we_filled_in() -> None:
    """torch's numbers equal numpy's Mersenne Twister started from the same 624 words: the layout is understood."""
    import hashlib

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
