"""The denoiser of denoised smoothing."""

from torch import Tensor, nn

from smoothcert.models.networks.initialization import he_normal
from smoothcert.models.networks.registry import register


class DnCNN(nn.Module):
    """Predicts the noise in an image and returns the image without it: `x - residual(x)`, same shape, not clipped.

    Zhang et al. 2017, "Beyond a Gaussian Denoiser": 17 convolutions of 3x3, 64 wide, batch-norm in all but the first
    and the last. Salman et al. 2020 put it before a classifier ("Denoised smoothing"). It takes any image size.
    """

    def __init__(self, channels: int, *, depth: int = 17, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth - 2):
            layers += [
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
        layers.append(nn.Conv2d(width, channels, 3, padding=1, bias=False))
        self.residual = nn.Sequential(*layers)
        he_normal(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the denoised images `(B, C, H, W)` of noisy images of that shape."""
        denoised: Tensor = x - self.residual(x)
        return denoised


@register("dncnn", classifies=False)
def _dncnn(*, num_classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
    return DnCNN(input_shape[0])


@register("dncnn-wide", classifies=False)
def _dncnn_wide(*, num_classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
    """Twice as wide: the denoisers of Salman et al. 2020 that Horvath et al. 2022 make an ensemble of."""
    return DnCNN(input_shape[0], width=128)
