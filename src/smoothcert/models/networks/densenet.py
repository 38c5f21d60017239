"""DenseNet-BC for 32x32 images."""

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.networks.initialization import he_normal
from smoothcert.models.networks.registry import register


class DenseLayer(nn.Module):
    """Appends `growth` channels, seen through a 1x1 bottleneck of `4 * growth`, to those it is given.

    BN-ReLU-Conv(1x1)-BN-ReLU-Conv(3x3): "DenseNet-B" of Huang et al. 2017, section 3.
    """

    def __init__(self, in_channels: int, growth: int) -> None:
        super().__init__()
        self.new = nn.Sequential(
            nn.BatchNorm2d(in_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(inplace=True),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, in_channels, H, W)` to `(B, in_channels + growth, H, W)`; the first channels are x."""
        return torch.cat([x, self.new(x)], dim=1)


@register("densenet100", min_side=4)
class DenseNet(nn.Module):
    """DenseNet-BC (Huang et al. 2017) with three dense blocks; depth 100 and growth 12: 769_162 parameters (CIFAR-10).

    The bottlenecks (B) make a layer two convolutions, the transitions (C) halve channels and resolution. No dropout.
    """

    def __init__(
        self, *, num_classes: int, input_shape: tuple[int, int, int], depth: int = 100, growth: int = 12
    ) -> None:
        super().__init__()
        if depth < 10 or depth % 6 != 4:
            raise InputError(f"depth of a DenseNet-BC must be 6n + 4 with n >= 1, such as 100, got {depth}")
        channels = 2 * growth
        layers: list[nn.Module] = [nn.Conv2d(input_shape[0], channels, 3, padding=1, bias=False)]
        for block in range(3):
            for _ in range((depth - 4) // 6):
                layers.append(DenseLayer(channels, growth))
                channels += growth
            layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
            if block < 2:
                layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
                channels //= 2
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))  # (B, channels, 1, 1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(channels, num_classes))
        he_normal(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        scores: Tensor = self.classifier(self.features(x))
        return scores
