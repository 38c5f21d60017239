"""Pictures that show what a radius means: noisy copies, and pictures near another one. None of it is a proof."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from smoothcert.attack.adversaries import AttackEffort, adversary
from smoothcert.core.errors import InputError
from smoothcert.core.model import evaluating
from smoothcert.engine import Routed, Smoothed
from smoothcert.noise import Noise

MOST_COPIES = 16
EFFORT = AttackEffort(steps=12, draws=32)
ORDERS = {"l2": 2.0, "l1": 1.0, "linf": np.inf}


@dataclass(frozen=True)
class Perturbed:
    """A PNG file, and how far it is from the first picture: in the norm of the noise, rounded up."""

    png: bytes
    distance: float

    @property
    def data_url(self) -> str:
        """For a page."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


def noisy_copies(x: Tensor, noise: Noise, copies: int) -> bytes:
    """A PNG file with noisy copies of x, (C, H, W), side by side; drawn anew every time, never under a secret key."""
    drawn = noise.draw(x.expand(copies, *x.shape), _generator())  # (copies, C, H, W)
    return _png(_levels(torch.cat(list(drawn), dim=2)))


def perturbed(x: Tensor, smoothed: Smoothed | Routed, size: float, how: str) -> Perturbed:
    """An 8-bit picture about `size` away from x, (C, H, W), and no further unless rounding takes it there.

    In the norm of the noise, which is that of the radius: beside a radius in l1 a distance in l2 would mean nothing.
    """
    norm = smoothed.noise.norm
    if norm not in ORDERS or (how == "attack" and norm != "l2"):
        raise InputError(f"pictures are perturbed at random in {', '.join(ORDERS)}, by an attack in l2; this is {norm}")
    delta = _random_direction(x) if how == "random" else _attack(x, _answering(x, smoothed), size)
    levels = _levels(_reach(x, delta, size, ORDERS[norm]) if how == "random" else x + delta)
    gap = levels.astype(np.float64) / 255 - x.numpy().astype(np.float64)
    return Perturbed(_png(levels), float(np.nextafter(np.linalg.norm(gap.ravel(), ORDERS[norm]), np.inf)))


def _reach(x: Tensor, direction: Tensor, size: float, order: float) -> Tensor:
    """As far into a direction as it takes to be `size` away after what leaves [0, 1] was cut off, if that can be."""
    low, high = 0.0, 64 * size / float(direction.flatten().norm(order))
    for _ in range(30):
        middle = (low + high) / 2
        within = float(((x + middle * direction).clamp(0, 1) - x).flatten().norm(order)) <= size
        low, high = (middle, high) if within else (low, middle)
    return x + low * direction


def _random_direction(x: Tensor) -> Tensor:
    return torch.randn(x.shape, generator=_generator())


def _answering(x: Tensor, smoothed: Smoothed | Routed) -> Smoothed:
    """Who answers at x: of a routed classifier whom a few draws of the router choose."""
    if not isinstance(smoothed, Routed):
        return smoothed
    router = smoothed.router
    with torch.no_grad(), evaluating(router.model):
        noisy = router.noise.for_inputs(x[None]).draw(x.expand(EFFORT.draws, *x.shape), _generator())
        number = int(router.model(noisy).argmax(dim=1).bincount().argmax())
    return list(smoothed.members.values())[number]


def _attack(x: Tensor, smoothed: Smoothed, size: float) -> Tensor:
    """Away from what the smoothed model says at x: projected gradients through the mean of noisy scores."""
    model = smoothed.model
    if not isinstance(model, nn.Module):
        raise InputError("this model has no gradients to attack it with; perturb in a random direction")
    training = model.training
    model.eval()
    try:
        noise = smoothed.noise.for_inputs(x[None])
        deltas = noise.draw(torch.zeros(EFFORT.draws, *x.shape), _generator())[None]  # (1, m, C, H, W)
        with torch.no_grad():
            label = torch.softmax(model(x + deltas[0]), dim=1).mean(dim=0).argmax()
        found = adversary("pgd", EFFORT)(model, x[None], label[None], deltas, torch.tensor([size]))
    finally:
        model.train(training)
    return (found[0] - x).detach()


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(secrets.randbits(63))


def _levels(x: Tensor) -> npt.NDArray[np.uint8]:
    """Pixels (C, H, W) as 8-bit levels: what is outside of [0, 1] is cut off."""
    levels: npt.NDArray[Any] = (x.clamp(0, 1) * 255).round().numpy()
    return levels.astype(np.uint8)


def _png(levels: npt.NDArray[np.uint8]) -> bytes:
    picture = levels[0] if len(levels) == 1 else levels.transpose(1, 2, 0)
    with BytesIO() as file:
        Image.fromarray(picture).save(file, "PNG")
        return file.getvalue()
