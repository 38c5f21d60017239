"""Pictures that show what a radius means: as far away as is said, in the norm of the radius."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from serving import SHAPE, SPEC, images, tensors

from smoothcert.core.errors import InputError
from smoothcert.engine import Smoothed
from smoothcert.models import build
from smoothcert.noise import Ablation, Gaussian, Noise, Uniform
from smoothcert.service.pictures import perturbed

GREY = torch.full(SHAPE, 128 / 255)


def smoothed(noise: Noise) -> Smoothed:
    return Smoothed(build(SPEC, seed=0), 10, noise, input_shape=SHAPE)


@pytest.mark.parametrize(
    ("noise", "order"),
    [(Gaussian(0.25), 2), (Uniform(0.25), 1), (Gaussian(0.25, norm="linf"), np.inf)],
    ids=["l2", "l1", "linf"],
)
def test_distances_are_in_the_norm_of_the_radius(noise: Noise, order: float) -> None:
    """A distance in l2 beside a radius in l1 looked as if it were inside."""
    size = 3.0 if order == 1 else 0.5
    found = perturbed(GREY, smoothed(noise), size, "random")
    pixels = np.asarray(Image.open(BytesIO(found.png)), dtype=np.float64)
    apart = np.linalg.norm((pixels / 255 - 128 / 255).ravel(), order)
    assert found.distance == pytest.approx(apart, rel=1e-6)
    rounding = np.linalg.norm(np.full(64, 0.5 / 255), order)
    assert size - rounding - 1e-6 <= found.distance <= size + rounding + 1e-6


def test_what_cannot_be_shown_is_said() -> None:
    x = tensors(images(1))[0]
    assert perturbed(x, smoothed(Gaussian(0.25)), 0.5, "attack").distance > 0
    for noise, how in ((Uniform(0.25), "attack"), (Ablation(0.8, 256), "random")):
        with pytest.raises(InputError, match=f"by an attack in l2; this is {noise.norm}"):
            perturbed(x, smoothed(noise), 0.5, how)
