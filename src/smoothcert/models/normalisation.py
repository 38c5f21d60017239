"""The normalisations that people train with, and which of them a model was trained with: raw pixels go in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smoothcert.core.errors import InputError


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / std per channel, of raw pixels in [0, 1]; one number stands for all channels."""

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def for_channels(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Means and deviations, one per channel; those of another number of channels are refused."""
        if not self.fits(channels):
            raise InputError(
                f"--normalize {self.name} has {len(self.mean)} channels, and the model takes {channels}; give one mean "
                "and one standard deviation per channel, as in 0.5,0.5,0.5/0.5,0.5,0.5"
            )
        times = channels if len(self.mean) == 1 else 1
        return self.mean * times, self.std * times

    def fits(self, channels: int) -> bool:
        """Whether it is for images of so many channels."""
        return len(self.mean) in (1, channels)


CIFAR10 = Normalisation("cifar10", (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
IMAGENET = Normalisation("imagenet", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
MNIST = Normalisation("mnist", (0.1307,), (0.3081,))
HALF = Normalisation("half", (0.5,), (0.5,))
BYTES = Normalisation("255", (0.0,), (1 / 255,))
USUAL = {one.name: one for one in (CIFAR10, IMAGENET, MNIST, HALF, BYTES)}
"""By the name that --normalize takes: of CIFAR-10, ImageNet and MNIST, to [-1, 1], and pixels from 0 to 255."""


def parse_normalisation(text: str) -> Normalisation:
    """A name, or MEAN,STD of one channel, or MEANS/STDS with commas between the channels."""
    if text in USUAL:
        return USUAL[text]
    try:
        if "/" in text:
            mean, std = (tuple(float(one) for one in part.split(",")) for part in text.split("/"))
        else:
            mean, std = ((float(one),) for one in text.split(","))
    except ValueError:
        raise InputError(
            f"--normalize must be {', '.join(USUAL)}, or means and standard deviations of raw pixels in [0, 1], as in "
            f"0.1307,0.3081 or 0.49,0.48,0.45/0.20,0.20,0.20, got {text!r}"
        ) from None
    _check(mean, std, text)
    return Normalisation(text, mean, std)


def _check(mean: Sequence[float], std: Sequence[float], text: str) -> None:
    if len(mean) != len(std):
        raise InputError(f"--normalize {text} has {len(mean)} means and {len(std)} deviations; give as many of each")
    if not all(abs(one) < 1e6 for one in mean) or not all(1e-6 < one < 1e6 for one in std):
        raise InputError(f"--normalize {text} must have finite means and positive standard deviations")
