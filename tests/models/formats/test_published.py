"""Checkpoints of the papers' code: their networks, written here again from their description, give the same scores."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.models import Architecture, build, formats
from smoothcert.models.formats.published import read
from smoothcert.models.normalisation import CIFAR10, parse_normalisation

MEAN, SD = [0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]


class Basic(nn.Module):
    """conv1, bn1, conv2, bn2, and a downsample where the shape changes; one ReLU for both places."""

    def __init__(self, before: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        changes = stride != 1 or before != planes
        down = nn.Sequential(nn.Conv2d(before, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        self.downsample = down if changes else None

    def forward(self, x: Tensor) -> Tensor:
        residual = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += residual
        return self.relu(out)


class Neck(nn.Module):
    """1x1, 3x3 with the stride, 1x1; four times as wide at the end."""

    def __init__(self, before: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv3, self.bn3 = nn.Conv2d(planes, 4 * planes, 1, bias=False), nn.BatchNorm2d(4 * planes)
        self.relu = nn.ReLU(inplace=True)
        changes = stride != 1 or before != 4 * planes
        down = nn.Sequential(nn.Conv2d(before, 4 * planes, 1, stride, bias=False), nn.BatchNorm2d(4 * planes))
        self.downsample = down if changes else None

    def forward(self, x: Tensor) -> Tensor:
        residual = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        return self.relu(self.bn3(self.conv3(out)) + residual)


def layer(block: type[nn.Module], before: int, planes: int, blocks: int, stride: int) -> nn.Sequential:
    wide = planes * (4 if block is Neck else 1)
    return nn.Sequential(block(before, planes, stride), *(block(wide, planes, 1) for _ in range(blocks - 1)))


class TheirCifarResNet(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        n = (depth - 2) // 6
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = layer(Basic, 16, 16, n, 1)
        self.layer2 = layer(Basic, 16, 32, n, 2)
        self.layer3 = layer(Basic, 32, 64, n, 2)
        self.avgpool = nn.AvgPool2d(8)
        self.fc = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x))))))
        return self.fc(self.avgpool(x).view(len(x), -1))


class TheirResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2 = layer(Neck, 64, 64, 3, 1), layer(Neck, 256, 128, 4, 2)
        self.layer3, self.layer4 = layer(Neck, 512, 256, 6, 2), layer(Neck, 1024, 512, 3, 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TheirLeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 2)
        return self.fc2(F.relu(self.fc1(x.view(-1, 800))))


class TheirNormalize(nn.Module):
    """Its numbers are plain attributes: they are not in the file."""

    def __init__(self, mean: list[float], sd: list[float]) -> None:
        super().__init__()
        self.mean, self.sd = torch.tensor(mean), torch.tensor(sd)

    def forward(self, x: Tensor) -> Tensor:
        b, _, h, w = x.shape
        mean = self.mean.repeat((b, h, w, 1)).permute(0, 3, 1, 2)
        return (x - mean) / self.sd.repeat((b, h, w, 1)).permute(0, 3, 1, 2)


def trained(net: nn.Module) -> nn.Module:
    """Weights and statistics that are not those of a new network."""
    generator = torch.Generator().manual_seed(0)
    for name, value in net.state_dict().items():
        if name.endswith("running_var"):
            value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
        elif name.endswith("running_mean") or ("bn" in name and value.is_floating_point()):
            value.copy_(torch.rand(value.shape, generator=generator))
    return net.eval()


IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def behind(net: nn.Module, numbers: tuple[list[float], list[float]] = (MEAN, SD)) -> nn.Module:
    return nn.Sequential(TheirNormalize(*numbers), net)


CASES: dict[str, tuple[Callable[[], nn.Module], str, tuple[int, ...]]] = {
    "cohen-20": (lambda: behind(TheirCifarResNet(20)), "cifar_resnet20", (3, 32, 32)),
    "cohen-110": (lambda: behind(TheirCifarResNet(110)), "cifar_resnet110", (3, 32, 32)),
    "parallel": (lambda: nn.DataParallel(behind(TheirCifarResNet(20))), "cifar_resnet20", (3, 32, 32)),
    "imagenet": (lambda: behind(nn.DataParallel(TheirResNet50()), IMAGENET), "resnet50", (3, 224, 224)),
    "consistency-mnist": (lambda: nn.Sequential(nn.Identity(), TheirLeNet()), "lenet", (1, 28, 28)),
    "network-alone": (lambda: nn.DataParallel(TheirCifarResNet(20)), "cifar_resnet20", (3, 32, 32)),
}


@pytest.mark.parametrize("case", CASES)
def test_scores_are_the_originals_to_the_last_bit(case: str, tmp_path: Path) -> None:
    make, arch, shape = CASES[case]
    torch.manual_seed(0)
    theirs = trained(make())
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
    state = {"epoch": 90, "arch": arch, "state_dict": theirs.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, tmp_path / "checkpoint.pth.tar")
    found = formats.load(tmp_path / "checkpoint.pth.tar")
    x = torch.rand(3, *shape)
    with torch.no_grad():
        assert torch.equal(found.model(x), theirs(x))
    assert isinstance(found.architecture, Architecture)
    assert (found.architecture.mean != ()) == (case not in ("consistency-mnist", "network-alone"))
    assert found.fingerprint is not None


def test_macer_saves_the_network_alone_and_does_not_name_it(tmp_path: Path) -> None:
    theirs, path = trained(TheirCifarResNet(110)), tmp_path / "440.pth"
    torch.save({"net": theirs.state_dict(), "epoch": 440}, path)
    with pytest.raises(InputError, match="does not name its network; give --arch"):
        formats.load(path)
    found, x = read(path, arch="cifar-resnet110"), torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(found.model(x), theirs(x)), "no normalisation: there was none"
        inside = read(path, arch="cifar-resnet110", normalisation=CIFAR10).model
        assert torch.equal(inside(x), theirs(TheirNormalize(MEAN, SD)(x)))


def test_an_old_file_without_counts_and_one_with_numbers_of_its_normalisation(tmp_path: Path) -> None:
    theirs = trained(TheirCifarResNet(20))
    state = {f"1.{k}": v for k, v in theirs.state_dict().items() if not k.endswith("num_batches_tracked")}
    torch.save(
        {"state_dict": state | {"0.means": torch.full((3,), 0.5), "0.sds": torch.full((3,), 0.25)}}, tmp_path / "a.pth"
    )
    found, x = read(tmp_path / "a.pth", arch="cifar-resnet20"), torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(found.model(x), theirs((x - 0.5) / 0.25))


def test_weights_of_ours_in_a_bare_file(tmp_path: Path) -> None:
    spec = Architecture("lenet", 10, (1, 8, 8))
    model = build(spec, seed=0).eval()
    torch.save(model.state_dict(), tmp_path / "w.pth")
    found = read(tmp_path / "w.pth", arch="lenet", input_shape=(1, 8, 8))
    x = torch.rand(2, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(found.model(x), model(x))


def test_normalisations_by_name_and_by_numbers() -> None:
    assert parse_normalisation("cifar10").for_channels(3) == (tuple(MEAN), tuple(SD))
    assert parse_normalisation("0.1307,0.3081").for_channels(3) == ((0.1307,) * 3, (0.3081,) * 3)
    assert parse_normalisation("0.1,0.2,0.3/0.4,0.5,0.6").for_channels(3) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    for text, words in {
        "0.1": "as in 0.1307,0.3081",
        "a,b": "as in",
        "0,0": "positive",
        "1,2/3": "2 means and 1 dev",
    }.items():
        with pytest.raises(InputError, match=words):
            parse_normalisation(text)
    with pytest.raises(InputError, match="has 3 channels, and the model takes 1"):
        CIFAR10.for_channels(1)
