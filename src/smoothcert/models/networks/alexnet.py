"""AlexNet for 32x32 images."""

from torch import Tensor, nn

from smoothcert.models.networks.registry import register


@register("alexnet", min_side=29)
class AlexNet(nn.Module):
    """Five convolutions and one linear layer: 2_472_266 parameters for CIFAR-10.

    AlexNet (Krizhevsky et al. 2012) as it is cut down for 32x32 images: channels 64, 192, 384, 256, 256, no dropout, no
    local response normalisation. A 32x32 image ends in one pixel; a larger one is averaged to one, so that the linear
    layer stays 256 wide. torch's own initialisation.
    """

    def __init__(self, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(input_shape[0], 64, 11, stride=4, padding=5),  # (B, 64, 8, 8) from 32x32
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 192, 5, padding=2),  # (B, 192, 4, 4)
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(192, 384, 3, padding=1),  # (B, 384, 2, 2)
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),  # (B, 256, 1, 1)
            nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(256, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        scores: Tensor = self.classifier(self.features(x))
        return scores
