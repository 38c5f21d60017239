import copy

import pytest
import torch
from torch import nn

from smoothcert.architectures import Architecture, build, fingerprint
from smoothcert.errors import InputError

SPEC = Architecture("cifar-resnet20", 10, (3, 32, 32), (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))


@pytest.fixture
def model() -> nn.Module:
    return build(SPEC, seed=0)


def test_it_is_a_known_constant_for_known_weights():
    """Pinned: a change of this value would make every stored certificate that of an unknown classifier."""
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -2.0]]))
        layer.bias.copy_(torch.tensor([0.5]))
    assert fingerprint(layer) == "aadbb8056bcfc4b859422dda7032b7c64b9edadc38f12f8d20f9863df03b3b6c"


def test_it_does_not_depend_on_mode_gradients_or_memory_format(model):
    expected = fingerprint(model)
    assert len(expected) == 64
    assert fingerprint(copy.deepcopy(model)) == expected
    assert fingerprint(copy.deepcopy(model).eval().requires_grad_(False)) == expected
    channels_last = copy.deepcopy(model).to(memory_format=torch.channels_last)
    assert not channels_last[1].stages[0][0].conv1.weight.is_contiguous()
    assert fingerprint(channels_last) == expected


@pytest.mark.parametrize("name", ["1.conv.weight", "1.classifier.bias", "1.bn.running_var", "0.mean"])
def test_one_ulp_of_one_weight_changes_it(model, name):
    before = fingerprint(model)
    weight = model.state_dict()[name].view(-1)
    weight[-1] = torch.nextafter(weight[-1], torch.tensor(torch.inf))
    assert fingerprint(model) != before


def test_dtype_name_and_shape_count(model):
    prints = {
        fingerprint(nn.Linear(2, 2, bias=False)),
        fingerprint(nn.Linear(2, 2, bias=False).double()),
        fingerprint(nn.Sequential(nn.Linear(2, 2, bias=False))),
    }
    assert len(prints) == 3
    flat, square = nn.Module(), nn.Module()
    flat.register_buffer("w", torch.zeros(4))
    square.register_buffer("w", torch.zeros(2, 2))
    assert fingerprint(flat) != fingerprint(square)


def test_options_and_classes_of_layers_count():
    weight = torch.zeros(4, 4, 3, 3)
    prints = set()
    for options in ({"stride": 1}, {"stride": 2}, {"padding": 1}, {"padding": 1, "padding_mode": "reflect"}):
        layer = nn.Conv2d(4, 4, 3, bias=False, **options)
        layer.weight.data = weight
        prints.add(fingerprint(layer))
    prints |= {
        fingerprint(nn.ReLU()),
        fingerprint(nn.Tanh()),
        fingerprint(nn.MaxPool2d(2)),
        fingerprint(nn.MaxPool2d(3)),
    }
    assert len(prints) == 8


def test_an_unsaved_buffer_counts():
    def net(value: float) -> nn.Module:
        module = nn.Module()
        module.register_buffer("temperature", torch.tensor(value), persistent=False)
        return module

    assert fingerprint(net(1.0)) != fingerprint(net(2.0))


class WithState(nn.Module):
    def __init__(self, state: object) -> None:
        super().__init__()
        self._state = state

    def get_extra_state(self) -> object:
        return self._state

    def set_extra_state(self, state: object) -> None:
        self._state = state


def test_extra_state_counts_when_plain_and_is_refused_otherwise():
    tensors = (torch.zeros(2), torch.ones(2))
    prints = [fingerprint(WithState(state)) for state in (1, "1.0", None, tensors, tensors[::-1])]
    assert len(set(prints)) == 5
    with pytest.raises(InputError, match="'_extra_state' of the model must be a tensor or a plain value"):
        fingerprint(WithState({"a": 1}))
