import pytest
import torch

from smoothcert.core.errors import InputError
from smoothcert.models import Normalize


def test_numbers_worked_out_by_hand():
    layer = Normalize(mean=(0.5, 0.25), std=(0.25, 0.5))
    x = torch.tensor([[[[1.0, 0.0]], [[0.75, 0.25]]]])  # (1, 2, 1, 2)
    assert torch.equal(layer(x), torch.tensor([[[[2.0, -2.0]], [[1.0, 0.0]]]]))
    assert torch.equal(layer(x[0]), layer(x)[0])  # one image without a batch


def test_mean_and_std_are_saved_but_not_trained():
    layer = Normalize([0.5], [0.2])
    assert set(layer.state_dict()) == {"mean", "std"}
    assert not list(layer.parameters())
    assert layer.std.shape == (1, 1, 1)


def test_a_grey_image_is_not_broadcast_to_colours():
    layer = Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
    with pytest.raises(InputError, match=r"x must have 3 channels.*got \(4, 1, 8, 8\)"):
        layer(torch.zeros(4, 1, 8, 8))
    with pytest.raises(InputError, match="x must have 3 channels"):
        layer(torch.zeros(4, 3))


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ((0.5,), (0.2, 0.2), "got 1 and 2"),
        ((), (), "got 0 and 0"),
        ((0.5,), (0.0,), "positive"),
        ((0.5,), (-1.0,), "positive"),
        ((0.5,), (float("nan"),), "positive"),
    ],
)
def test_refusals(mean, std, message):
    with pytest.raises(InputError, match=message):
        Normalize(mean, std)
