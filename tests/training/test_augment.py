import pytest
import torch
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.training import Augment


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_batch_is_what_a_loop_over_images_gives() -> None:
    x = torch.rand(40, 3, 9, 11, generator=seeded())
    augment = Augment(crop=3, flip=True)
    what = augment.draw(len(x), seeded(1))
    expected = []
    for image, (top, left, mirror) in zip(x, what.tolist(), strict=True):
        crop = F.pad(image, (3, 3, 3, 3))[:, top : top + 9, left : left + 11]
        expected.append(crop.flip(2) if mirror else crop)
    assert torch.equal(augment.apply(x, what), torch.stack(expected))


def test_every_shift_and_both_sides_are_drawn() -> None:
    what = Augment(crop=2, flip=True).draw(4000, seeded())
    assert what.shape == (4000, 3)
    assert len({tuple(row) for row in what.tolist()}) == 5 * 5 * 2
    # Binomial(4000, 1/2): 4.9 standard deviations, a probability below 1e-6.
    assert abs(int(what[:, 2].sum()) - 2000) < 4.9 * 31.7


def test_shifts_or_flips_alone_and_neither() -> None:
    x = torch.rand(30, 1, 5, 5, generator=seeded())
    flips = Augment(flip=True)
    what = flips.draw(30, seeded(2))
    done = flips.apply(x, what)
    assert all(
        torch.equal(new, old.flip(2) if m else old) for new, old, m in zip(done, x, what[:, 2].tolist(), strict=True)
    )
    assert int(Augment(crop=2).draw(30, seeded(2))[:, 2].sum()) == 0
    assert torch.equal(Augment().apply(x, Augment().draw(30, seeded())), x)


def test_a_part_of_the_batch_is_augmented_as_in_the_whole() -> None:
    x, augment = torch.rand(10, 1, 6, 6, generator=seeded()), Augment(crop=1, flip=True)
    what = augment.draw(10, seeded(3))
    assert torch.equal(augment.apply(x[4:7], what[4:7]), augment.apply(x, what)[4:7])


def test_what_cannot_be_augmented() -> None:
    with pytest.raises(InputError, match="crop of the augmentation"):
        Augment(crop=-1)
    with pytest.raises(InputError, match=r"only images \(B, C, H, W\)"):
        Augment(crop=1).apply(torch.zeros(3, 4), torch.zeros(3, 3, dtype=torch.int64))
