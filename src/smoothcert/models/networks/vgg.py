"""VGG with batch-norm for 32x32 images."""

from functools import partial

from torch import Tensor, nn

from smoothcert.models.networks.initialization import he_normal
from smoothcert.models.networks.registry import register

# Simonyan & Zisserman 2015, table 1, columns D and E: convolutions per stage.
_CONVOLUTIONS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_WIDTHS = (64, 128, 256, 512, 512)


class VGG(nn.Module):
    """VGG-16 or VGG-19: 14_728_266 and 20_040_522 parameters for CIFAR-10.

    Simonyan & Zisserman 2015, as it is used on 32x32 images: batch-norm (Ioffe & Szegedy 2015) after every convolution,
    and one linear layer 512 -> classes instead of three. Images larger than 32x32 are averaged to one pixel before it.
    """

    def __init__(self, depth: int, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = input_shape[0]
        for width, convolutions in zip(_WIDTHS, _CONVOLUTIONS[depth], strict=True):
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))  # (B, 512, 1, 1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(512, num_classes))
        he_normal(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        scores: Tensor = self.classifier(self.features(x))
        return scores


for _depth in _CONVOLUTIONS:
    register(f"vgg{_depth}", min_side=32)(partial(VGG, _depth))
