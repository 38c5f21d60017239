"""Diffusion-denoised smoothing (Carlini et al. 2023): one step of a diffusion model takes the noise away.

A diffusion model sees x_t = sqrt(a_t) x + sqrt(1 - a_t) e, with pixels in [-1, 1], e standard normal and a_t falling
from 1 to almost 0. An image in [0, 1] under Gaussian noise of sigma is such an x_t, once it is scaled to [-1, 1], where
the noise is 2 sigma, and multiplied by sqrt(a_t): the t with (1 - a_t) / a_t = (2 sigma)^2. Steps are whole numbers, so
the nearest one is taken; that decides how well it denoises, and never what is certified.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError

KINDS = ("epsilon", "sample", "v_prediction")
"""What a diffusion model answers: the noise e, the clean image x, or sqrt(a_t) e - sqrt(1 - a_t) x."""


class DiffusionDenoiser(nn.Module):
    """Noisy images in [0, 1] to clean ones, by one call of a diffusion model. For `Denoised`, before a classifier.

    Args:
        network: called with x_t (B, C, H, W) in [-1, 1] and steps (B,), it answers (B, C, H, W), or twice the channels
            (then the second half is its variance, and dropped), or an object with that as its `sample`.
        alphas_cumprod: a_t for every step t.
        sigma: of the Gaussian noise that images come with.
        prediction: what the network answers; see `KINDS`.
    """

    def __init__(
        self, network: nn.Module, alphas_cumprod: Tensor | Sequence[float], sigma: float, *, prediction: str = "epsilon"
    ) -> None:
        super().__init__()
        steps = torch.as_tensor(alphas_cumprod, dtype=torch.float64)
        if steps.dim() != 1 or len(steps) < 2 or not bool(((steps > 0) & (steps < 1)).all()):
            raise InputError("alphas_cumprod must be numbers between 0 and 1, one for each step of the diffusion")
        if prediction not in KINDS:
            raise InputError(f"prediction must be one of {', '.join(KINDS)}, got {prediction!r}")
        if not 0 < sigma < math.inf:
            raise InputError(f"sigma must be a positive number, got {sigma}")
        reached = float(((1 - steps) / steps).max().sqrt()) / 2
        if sigma > reached:
            raise InputError(f"sigma must be at most {reached:.4g}, the strongest noise of this diffusion, got {sigma}")
        self.network, self.sigma, self.prediction = network, float(sigma), prediction
        self.step = int(((1 - steps) / steps).log().sub(2 * math.log(2 * sigma)).abs().argmin())
        self.alpha = float(steps[self.step])

    @classmethod
    def from_diffusers(cls, network: nn.Module, scheduler: Any, sigma: float) -> Self:
        """Of a network and a scheduler of the library diffusers, such as UNet2DModel and DDPMScheduler."""
        config, alphas = getattr(scheduler, "config", None), getattr(scheduler, "alphas_cumprod", None)
        if config is None or alphas is None:
            raise InputError(
                f"scheduler must have alphas_cumprod, as DDPMScheduler and DDIMScheduler have, got {type(scheduler)}"
            )
        return cls(network, alphas, sigma, prediction=getattr(config, "prediction_type", "epsilon"))

    def forward(self, x: Tensor) -> Tensor:
        """The denoised images, in [0, 1]."""
        signal, noise = math.sqrt(self.alpha), math.sqrt(1 - self.alpha)
        noisy = signal * (2 * x - 1)
        answer = self.network(noisy, torch.full((len(x),), self.step, device=x.device))
        predicted: Tensor = answer if isinstance(answer, Tensor) else answer.sample
        predicted = predicted[:, : x.shape[1]]
        if self.prediction == "sample":
            clean = predicted
        elif self.prediction == "v_prediction":
            clean = signal * noisy - noise * predicted
        else:
            clean = (noisy - noise * predicted) / signal
        return (clean.clamp(-1, 1) + 1) / 2
