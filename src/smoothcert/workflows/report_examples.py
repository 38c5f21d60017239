"""A few inputs of a run as pictures: as they are, under noise, moved by less than their radius. No proof."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from smoothcert.analysis import Results
from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.noise import Noise
from smoothcert.present.report.about import Example
from smoothcert.runs import Record

ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}  # of numpy's norm
SHARE = 0.9
"""Of the radius: rounded up in print, the distance is still below the radius, which is rounded down."""
HALVINGS = 40
LEVELS = 255

Image = npt.NDArray[np.uint8]


def examples(dataset: Dataset, result: Results) -> tuple[Example, ...]:
    """The input with the largest radius, a middle one, the worst wrong one, one that abstains: those that there are."""
    return tuple(_example(dataset.inputs[record.index], record) for record in _telling(result.records))


def _telling(records: tuple[Record, ...]) -> list[Record]:
    known = sorted((r for r in records if r.certificate is not None), key=lambda r: (-r.radius, r.index))
    right = [r for r in known if not r.abstained and (r.correct or not r.labelled)]
    wrong = [r for r in known if not r.abstained and r.labelled and not r.correct]
    kinds = (right[:1], right[len(right) // 2 : len(right) // 2 + 1], wrong[:1], [r for r in known if r.abstained][:1])
    return list({record.index: record for kind in kinds for record in kind}.values())


def _example(image: Image, record: Record) -> Example:
    certificate = record.certificate
    assert certificate is not None
    shown = under_noise(image, Noise.from_description(certificate.noise), seed=record.index)
    if certificate.abstained or certificate.norm not in ORDERS:
        return Example(record.index, image, shown)
    moved, distance = move(image, SHARE * certificate.radius, certificate.norm, seed=record.index)
    return Example(record.index, image, shown, moved, distance)


def under_noise(image: Image, noise: Noise, *, seed: int) -> Image:
    """An 8-bit image with one draw of noise, as far as 8 bits can show it."""
    x = torch.tensor(image).float() / LEVELS
    return _levels(noise.draw(x[None], torch.Generator().manual_seed(seed))[0].double().numpy())


def move(image: Image, radius: float, norm: str, *, seed: int) -> tuple[Image, float]:
    """An 8-bit image in a random direction from another one, as far as it goes below `radius`, and the distance."""
    if norm not in ORDERS:
        raise InputError(f"norm must be one of {', '.join(ORDERS)}, got {norm!r}")
    x = image.astype(np.float64) / LEVELS
    direction = np.random.default_rng(seed).standard_normal(x.shape)
    low, high, found, reached = 0.0, 64.0 * radius, image, 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = _levels(x + middle * direction)
        distance = float(np.linalg.norm(((tried.astype(np.float64) - image) / LEVELS).ravel(), ORDERS[norm]))
        if distance < radius:
            low, found, reached = middle, tried, distance
        else:
            high = middle
    return found, reached


def _levels(x: npt.NDArray[np.float64]) -> Image:
    """Pixels as 8-bit levels: what is outside of [0, 1] is cut off."""
    return (x.clip(0, 1) * LEVELS).round().astype(np.uint8)
