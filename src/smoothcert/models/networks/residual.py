"""The blocks of residual networks (He et al. 2016, figure 5), shared by the CIFAR and the ImageNet family.

Every ReLU is a module of its own: quantisation tools attach one observer per module and go wrong on a reused one.
"""

from typing import ClassVar

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut: `relu(F(x) + shortcut(x))`.

    The output is `(B, width, H / stride, W / stride)`.
    """

    expansion: ClassVar[int] = 1

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(in_channels, width, stride)
        self.relu2 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, in_channels, H, W)` to `(B, width, H / stride, W / stride)`."""
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        result: Tensor = self.relu2(out + self.shortcut(x))
        return result


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, around a shortcut; the output has `4 * width` channels.

    The stride sits in the 3x3 convolution, not in the first 1x1 as in the paper: the same parameters, and a better
    classifier (the "v1.5" that every public ResNet-50 uses).
    """

    expansion: ClassVar[int] = 4

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out_channels = self.expansion * width
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.shortcut = _shortcut(in_channels, out_channels, stride)
        self.relu3 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, in_channels, H, W)` to `(B, 4 * width, H / stride, W / stride)`."""
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.relu2(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        result: Tensor = self.relu3(out + self.shortcut(x))
        return result


def stage(
    block: type[BasicBlock] | type[Bottleneck], in_channels: int, width: int, blocks: int, stride: int
) -> nn.Sequential:
    """Return `blocks` blocks of one width; the first one changes channels and resolution."""
    out_channels = block.expansion * width
    rest = (block(out_channels, width, stride=1) for _ in range(blocks - 1))
    return nn.Sequential(block(in_channels, width, stride=stride), *rest)


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """Return the identity where shapes agree, else a 1x1 projection with batch-norm (option B of the paper)."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    projection = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
    return nn.Sequential(projection, nn.BatchNorm2d(out_channels))
