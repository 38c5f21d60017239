"""Initial weights."""

from torch import nn


def he_normal(net: nn.Module) -> None:
    """Draw every convolution of `net` from N(0, 2 / (k * k * out_channels)) and set its bias to zero.

    He et al. 2015, "Delving Deep into Rectifiers", eq. 14 (the backward-pass form, the one of the residual networks'
    authors). Linear and batch-norm layers keep torch's own initialisation.
    """
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
