"""The contract of a training objective, and what several of them share."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.described import Described
from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry
from smoothcert.noise import Noise
from smoothcert.training.objectives.attack import Attack, by_input

OBJECTIVES: Registry[type[Objective]] = Registry("objective")


@dataclass(frozen=True)
class Objective(Described, ABC):
    """A loss of a model on a batch, under noise. Frozen; hyper-parameters are fields.

    Every term is a mean over the inputs of the batch: the losses of the parts of a batch, weighted by their sizes, add
    up to the loss of the batch, as long as the model itself looks at one input at a time.
    """

    registry: ClassVar[Registry[Any]] = OBJECTIVES
    noise: Noise
    # When in training, in epochs from 0. None: schedules are over.
    epoch: float | None = dataclasses.field(
        default=None, kw_only=True, compare=False, repr=False, metadata={"described": False}
    )

    @property
    def classifies(self) -> bool:
        """Whether what is trained answers classes, by `scores`."""
        return True

    def scores(self, model: nn.Module, x: Tensor) -> Tensor:
        """Scores (B, C) of noisy inputs x (B, ...), by what `model` is trained for."""
        scores: Tensor = model(x)
        return scores

    @abstractmethod
    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """What the loss is the sum of, by name: x (B, ...) raw inputs, y (B,) labels.

        All noise comes from `generator`; `strength` (B,) gives each input its own.
        """

    def loss(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> Tensor:
        """Mean loss over the batch: the sum of the terms."""
        if strength is not None:
            _check_strength(strength, len(x))
        return torch.stack(list(self.terms(model, x, y, generator, strength).values())).sum()

    def at(self, epoch: float) -> Self:
        """This objective as it is `epoch` epochs into the training: warm-ups and deferred terms follow from it."""
        return dataclasses.replace(self, epoch=epoch)

    @property
    def carries(self) -> bool:
        """Whether its attack goes on from epoch to epoch, along a direction that is kept for each input."""
        attack: Attack | None = getattr(self, "attack", None)
        return attack is not None and attack.carries

    def carrying(self, directions: Tensor) -> Self:
        """This objective, its attack going on along these directions (B, ...), which are overwritten."""
        attack: Attack = getattr(self, "attack")  # noqa: B009
        return dataclasses.replace(self, attack=attack.carrying(directions))  # type: ignore[call-arg]

    def ramp(self, epochs: int) -> float:
        """1/epochs in the first epoch, 2/epochs in the second, ..., then 1: the warm-up of Salman et al. 2019."""
        return 1.0 if self.epoch is None or not epochs else min(1.0, (math.floor(self.epoch) + 1) / epochs)


def noisy_scores(
    model: nn.Module, noise: Noise, x: Tensor, draws: int, generator: torch.Generator, strength: Tensor | None
) -> Tensor:
    """Scores of `draws` noisy copies of every input, (B, m, C), run as one batch."""
    return by_input(model(_noisy(noise, x, draws, generator, strength)), len(x))


def additive_noise(noise: Noise, x: Tensor, draws: int, generator: torch.Generator, strength: Tensor | None) -> Tensor:
    """`draws` noises for every input, (B, m, ...), to be added to it or to what it is moved to."""
    return _noisy(noise, torch.zeros_like(x), draws, generator, strength).view(len(x), draws, *x.shape[1:])


def _noisy(noise: Noise, x: Tensor, draws: int, generator: torch.Generator, strength: Tensor | None) -> Tensor:
    """(B, ...) -> (B * m, ...), input-major: x1 x1 ... x2 x2 ... and strengths s1 s1 ... s2 s2 ... beside them."""
    strengths = None if strength is None else strength.repeat_interleave(draws)
    return noise.draw(x.repeat_interleave(draws, dim=0), generator, strengths)


def log_mean_softmax(scores: Tensor) -> Tensor:
    """log of the mean over the copies of softmax, (B, m, C) -> (B, C), finite for every finite score."""
    return F.log_softmax(scores, dim=-1).logsumexp(dim=1) - math.log(scores.shape[1])


def copies_cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of every copy with its input's label, averaged: scores (B, m, C), y (B,)."""
    return F.cross_entropy(scores.flatten(0, 1), y.repeat_interleave(scores.shape[1]))


def _check_strength(strength: Tensor, inputs: int) -> None:
    """Refuse strengths that are none; their values only on a CPU, where looking at them costs nothing."""
    if strength.shape != (inputs,):
        raise InputError(f"strength must be one number per input, ({inputs},), got {tuple(strength.shape)}")
    if strength.device.type == "cpu" and not bool(((strength >= 0) & (strength < math.inf)).all()):
        raise InputError("strength must be finite numbers of at least 0, but there are others")


def check_count(name: str, value: int, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be an integer of at least {least}, got {value}")


def check_weight(name: str, value: float) -> None:
    """Refuse what is not a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{name} must be a finite number of at least 0, got {value}")


def check_additive(objective: str, noise: Noise) -> None:
    """Refuse a noise that is not added to the input: an attack moves the input under fixed noise."""
    if noise.norm == "l0":
        raise InputError(f"noise of {objective} must be added to the input, {noise.name} noise replaces parts of it")
