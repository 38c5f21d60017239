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


def test_a_bend_looks_pixels_up_where_the_map_sends_them() -> None:
    x, augment = torch.rand(2, 1, 9, 9, generator=seeded()), Augment(affine=0.5)
    what = torch.zeros(2, 3 + 4 + 32)
    what[1, 3:7] = torch.tensor([-1.0, 1.0, -1.0, -1.0])  # with the identity: columns are looked up in rows
    still, turned = augment.apply(x, what)
    assert torch.allclose(still, x[0], atol=1e-6)
    assert torch.allclose(turned, torch.rot90(x[1], 1, (1, 2)), atol=1e-5)


def test_points_that_all_move_alike_shift_the_image_and_zeros_come_in() -> None:
    x, augment = torch.rand(1, 2, 8, 6, generator=seeded()), Augment(elastic=2.0)
    what = torch.zeros(1, 3 + 4 + 32)
    what[:, 7:23] = 1.0  # what is one pixel to the right
    bent = augment.apply(x, what)
    assert torch.allclose(bent[..., :-1], x[..., 1:], atol=1e-5)
    assert float(bent[..., -1].abs().max()) < 1e-5


def test_white_stays_white() -> None:
    x, augment = torch.ones(200, 1, 28, 28), Augment(affine=0.1, elastic=1.0)
    bent = augment.apply(x, augment.draw(200, seeded(1)))
    assert (float(bent.max()), float(bent.min())) == (1.0, 0.0)


def test_bends_stay_within_their_limits_and_leave_crops_and_flips_as_they_were() -> None:
    plain, bent = Augment(crop=2, flip=True), Augment(crop=2, flip=True, affine=0.1, elastic=1.5)
    what = bent.draw(500, seeded(4))
    assert torch.equal(what[:, :3].long(), plain.draw(500, seeded(4)))
    assert 0.09 < float(what[:, 3:7].abs().max()) <= 0.1
    assert 1.4 < float(what[:, 7:].abs().max()) <= 1.5
    x = torch.rand(500, 1, 6, 7, generator=seeded())
    assert torch.allclose(bent.apply(x[9:30], what[9:30]), bent.apply(x, what)[9:30], atol=1e-6)
    assert plain.describe() == {"crop": 2, "flip": True}
    assert bent.describe() == {"crop": 2, "flip": True, "affine": 0.1, "elastic": 1.5}
    for affine, elastic in ((1.0, 0.0), (0.0, -1.0), (0.0, float("nan")), ("0.1", 0.0)):
        with pytest.raises(InputError, match="affine of the augmentation"):
            Augment(affine=affine, elastic=elastic)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="1 x 7 pixels cannot be bent"):
        bent.apply(x[:, :, :1], what)
