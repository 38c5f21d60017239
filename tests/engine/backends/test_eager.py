"""Folding and layout change the speed and nothing else."""

import copy

import torch
from torch import Tensor, nn

from smoothcert.engine import Smoothed
from smoothcert.engine.backends import BackendTask
from smoothcert.engine.backends.eager import arranged, channels_last, fold, folded_or_none
from smoothcert.models import Architecture, build
from smoothcert.noise import Gaussian


def task(model: nn.Module, shape: tuple[int, ...]) -> BackendTask:
    return BackendTask(model.eval(), "name", torch.device("cpu"), shape, 64)


def norms(model: nn.Module) -> int:
    return sum("BatchNorm" in type(module).__name__ for module in model.modules())


def test_folding_keeps_scores_and_the_users_module(net: nn.Module) -> None:
    before = copy.deepcopy(net.state_dict())
    folded = folded_or_none(task(net, (1, 8, 8)))
    assert folded is not None
    x = torch.rand(32, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(folded(x), net(x), rtol=1e-4, atol=1e-4)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert norms(net) == 3
    assert "BatchNorm" not in str(folded.code)  # type: ignore[operator]
    assert Smoothed(net, 3, Gaussian(0.1), input_shape=(1, 8, 8)).describe()["backend"]["folded"] is True


def test_every_batch_norm_of_a_resnet_is_folded() -> None:
    folded = fold(build(Architecture("cifar-resnet20", 10, (3, 32, 32)), seed=0).eval())
    assert folded is not None
    kept = [node for node in folded.graph.nodes if node.op == "call_module" and "bn" in str(node.target)]
    assert kept == []


class Shared(nn.Module):
    """One convolution, two batch-norms: folding the first would change what the second sees."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.first, self.second = nn.BatchNorm2d(1), nn.BatchNorm2d(1)
        self.second.bias.data.fill_(3.0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(self.conv(x)).flatten(1), self.second(self.conv(x)).flatten(1)], dim=1)


class Residue(nn.Module):
    """What comes out of the convolution is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 1, 3, padding=1), nn.BatchNorm2d(1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return (y + self.norm(y)).flatten(1)


class Asking(nn.Module):
    """Takes another way when it is traced: the folded one is another function, and is not taken."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 1, 3, padding=1), nn.BatchNorm2d(1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x)).flatten(1)
        return y if isinstance(x, Tensor) else -y


def test_what_must_not_be_folded_is_not() -> None:
    assert fold(Shared().eval()) is None
    assert fold(Residue().eval()) is None
    assert fold(nn.Sequential(nn.Conv2d(1, 1, 3), nn.BatchNorm2d(1, track_running_stats=False)).eval()) is None
    assert fold(nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU()).eval()) is None
    asking = Asking().eval()
    assert fold(asking) is not None
    assert folded_or_none(task(asking, (1, 8, 8))) is None
    assert Smoothed(asking, 64, Gaussian(0.1), input_shape=(1, 8, 8)).describe()["backend"]["folded"] is False


def test_channels_last_is_reached_with_one_channel() -> None:
    """torch leaves the strides of a one-channel tensor as they are, and the kernels then take the slow way."""
    weight = torch.rand(32, 1, 5, 5)
    assert weight.contiguous(memory_format=torch.channels_last).stride() == (25, 25, 5, 1)
    assert channels_last(weight).stride() == (25, 1, 5, 1)
    assert torch.equal(channels_last(weight), weight)
    wide = torch.rand(4, 3, 2, 5)
    assert torch.equal(channels_last(wide), wide)
    model = build(Architecture("lenet", 10, (1, 28, 28)), seed=0).eval()
    fast = arranged(model)
    x = torch.rand(128, 1, 28, 28)
    with torch.inference_mode():
        first = fast.get_submodule("features.0")(x)
        assert first.is_contiguous(memory_format=torch.channels_last)
        assert not model.get_submodule("features.0")(x).is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert copy.deepcopy(fast).get_submodule("features.0").weight.stride() == (25, 1, 5, 1)  # type: ignore[union-attr]
