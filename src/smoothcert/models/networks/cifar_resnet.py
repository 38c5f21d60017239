"""Residual networks for 32x32 images."""

from functools import partial

from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.networks.initialization import he_normal
from smoothcert.models.networks.registry import register
from smoothcert.models.networks.residual import BasicBlock, stage


class CifarResNet(nn.Module):
    """The CIFAR ResNet of depth 6n + 2 (He et al. 2016, section 4.2): three stages of n blocks, 16, 32, 64 wide.

    ResNet-110 is the CIFAR-10 network of Cohen et al. 2019 and of most papers since. Departure from He et al., as in
    Cohen's code: where the width changes, the shortcut is a 1x1 convolution with batch-norm (their option B; on CIFAR
    they pad with zeros, option A). That is 2752 parameters more: 272_474 for ResNet-20, 1_730_714 for ResNet-110.
    """

    def __init__(self, depth: int, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        if depth < 8 or depth % 6 != 2:
            raise InputError(f"depth of a CIFAR ResNet must be 6n + 2 with n >= 1, such as 20 or 110, got {depth}")
        blocks = (depth - 2) // 6
        self.conv = nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        self.stages = nn.Sequential(
            stage(BasicBlock, 16, 16, blocks, stride=1),  # (B, 16, 32, 32)
            stage(BasicBlock, 16, 32, blocks, stride=2),  # (B, 32, 16, 16)
            stage(BasicBlock, 32, 64, blocks, stride=2),  # (B, 64, 8, 8)
        )
        # As in Cohen's code: another way to average has other last bits, and their checkpoints other scores.
        self.pool = nn.AvgPool2d((-(-input_shape[1] // 4), -(-input_shape[2] // 4)))
        self.classifier = nn.Linear(64, num_classes)
        he_normal(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        features = self.stages(self.relu(self.bn(self.conv(x))))
        scores: Tensor = self.classifier(self.pool(features).flatten(1))
        return scores


for _depth in (20, 26, 32, 110):
    register(f"cifar-resnet{_depth}")(partial(CifarResNet, _depth))
