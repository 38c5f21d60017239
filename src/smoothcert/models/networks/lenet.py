"""LeNet for small grey images."""

from torch import Tensor, nn

from smoothcert.models.networks.registry import register


@register("lenet", min_side=4)
class LeNet(nn.Module):
    """Two 5x5 convolutions (32, 64) and two linear layers (1024, classes): 3_274_634 parameters for MNIST.

    A wide descendant of LeNet-5 (LeCun et al. 1998). The flat size follows from the image: 3136 for 28x28. torch's own
    initialisation. No paper has it: published MNIST numbers are of a narrower one, `SmallLeNet`.
    """

    def __init__(self, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = input_shape
        self.features = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),  # (B, 32, H // 2, W // 2)
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),  # (B, 64, H // 4, W // 4)
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        scores: Tensor = self.classifier(self.features(x))
        return scores


@register("lenet-small", min_side=16)
class SmallLeNet(nn.Module):
    """Two 5x5 convolutions (20, 50) without padding and two linear layers (500, classes): 431_080 parameters for MNIST.

    The network of Zhai 2020 (MACER) and of the public MNIST certification logs of Jeong & Shin 2020 (Consistency) and
    Jeong 2021 (SmoothMix), as their code has it, and of the MNIST recipes. A sixth of the operations of `LeNet`; 800
    flat numbers for 28x28, torch's own initialisation.
    """

    def __init__(self, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = input_shape
        sides = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        self.features = nn.Sequential(
            nn.Conv2d(channels, 20, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(20, 50, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),  # (B, 50, 4, 4) for 28x28
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(50 * sides[0] * sides[1], 500),
            nn.ReLU(inplace=True),
            nn.Linear(500, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        scores: Tensor = self.classifier(self.features(x))
        return scores


@register("lenet5", min_side=16)
class LeNet5(nn.Module):
    """LeNet-5 (LeCun et al. 1998): 5x5 convolutions (6, 16), linear layers (120, 84, classes): 62_006 parameters.

    So many for the 32x32 colour images of CIFAR-10: a candidate of SWEEN (Liu et al. 2021, section 5.1), whose paper
    says "LeNet" and no more. ReLU and max-pooling as usual today, and torch's own initialisation.
    """

    def __init__(self, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = input_shape
        sides = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),  # (B, 16, 5, 5) for 32x32
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(16 * sides[0] * sides[1], 120),
            nn.ReLU(inplace=True),
            nn.Linear(120, 84),
            nn.ReLU(inplace=True),
            nn.Linear(84, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        scores: Tensor = self.classifier(self.features(x))
        return scores
