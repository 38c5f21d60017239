"""Residual networks for ImageNet."""

from functools import partial

from torch import Tensor, nn

from smoothcert.models.networks.initialization import he_normal
from smoothcert.models.networks.registry import register
from smoothcert.models.networks.residual import BasicBlock, Bottleneck, stage

_Block = type[BasicBlock] | type[Bottleneck]
# He et al. 2016, table 1: the block and the blocks per stage.
_STAGES: dict[int, tuple[_Block, tuple[int, int, int, int]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}


class ResNet(nn.Module):
    """ResNet-18, -34 or -50 for ImageNet (He et al. 2016, table 1); ResNet-50 is the network of Cohen et al. 2019.

    11_689_512, 21_797_672 and 25_557_032 parameters with 1000 classes. It takes any image size.
    """

    def __init__(self, depth: int, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        block, (n1, n2, n3, n4) = _STAGES[depth]
        self.conv = nn.Conv2d(input_shape[0], 64, 7, stride=2, padding=3, bias=False)  # (B, 64, 112, 112)
        self.bn = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.Sequential(
            stage(block, 64, 64, n1, stride=1),  # (B, 64 e, 56, 56), e = block.expansion
            stage(block, 64 * block.expansion, 128, n2, stride=2),  # (B, 128 e, 28, 28)
            stage(block, 128 * block.expansion, 256, n3, stride=2),  # (B, 256 e, 14, 14)
            stage(block, 256 * block.expansion, 512, n4, stride=2),  # (B, 512 e, 7, 7)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(512 * block.expansion, num_classes)
        he_normal(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        features = self.stages(self.maxpool(self.relu(self.bn(self.conv(x)))))
        scores: Tensor = self.classifier(self.avgpool(features).flatten(1))
        return scores


for _depth in _STAGES:
    register(f"resnet{_depth}")(partial(ResNet, _depth))
