"""Architectures by name: registered by their own files, built from a specification."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.core.registry import Registry
from smoothcert.models.networks.averaged import Averaged
from smoothcert.models.networks.normalize import Normalize
from smoothcert.models.networks.specification import Architecture


class Builder(Protocol):
    """What is registered: makes a freshly initialised network for images of one shape.

    All that decides the function lives in parameters and persistent buffers, and construction must work on torch's
    `meta` device, because that is how a checkpoint is checked before its weights are taken.
    """

    def __call__(self, *, num_classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
        """Return the network."""


@dataclass(frozen=True)
class _Entry:
    builder: Builder
    min_side: int
    classifies: bool


ARCHITECTURES: Registry[_Entry] = Registry("architecture")
MOST_COPIES = 100
"""Of `NAME*K`: a damaged header must not ask for any number of networks."""
_B = TypeVar("_B", bound=Builder)


def register(name: str, *, min_side: int = 1, classifies: bool = True) -> Callable[[_B], _B]:
    """Make a builder known under `name` (decorator); it returns the builder unchanged.

    Args:
        name: lower case, unique; what `Architecture.name` and the command line say.
        min_side: the smallest height and width from which every layer still has a pixel to see.
        classifies: false for networks that return images (denoisers), which have neither classes nor `Normalize`.
    """

    def add(builder: _B) -> _B:
        ARCHITECTURES.add(_Entry(builder, min_side, classifies), name)
        return builder

    return add


def names() -> tuple[str, ...]:
    """Return every registered name, sorted."""
    return tuple(sorted(ARCHITECTURES))


def build(spec: Architecture, *, seed: int | None = None) -> nn.Module:
    """Return a freshly initialised network in training mode, `Sequential(Normalize, net)` if the spec normalises.

    `NAME*K`, as in `lenet-small*3`, is K networks whose scores are averaged, and which are trained as one.

    Args:
        spec: what to build; an `InputError` says why it cannot be.
        seed: with a seed the weights (on the CPU) are a function of `(spec, seed)` alone and torch's global generators
            are left as they were; without one they come from torch's global generator, on torch's default device.
    """
    entry, copies = _found(spec.name)
    _refuse_unfit(spec, entry)
    with ExitStack() as scope:
        if seed is not None:
            scope.enter_context(torch.device("cpu"))
            scope.enter_context(torch.random.fork_rng(devices=[]))
            # torch.manual_seed would also reseed the GPUs, which fork_rng(devices=[]) does not restore.
            torch.default_generator.manual_seed(seed)
        nets = [entry.builder(num_classes=spec.num_classes, input_shape=spec.input_shape) for _ in range(copies)]
        net = nets[0] if copies == 1 else Averaged(nets)
        return nn.Sequential(Normalize(spec.mean, spec.std), net) if spec.mean else net


def _found(name: str) -> tuple[_Entry, int]:
    """The entry of a network, and how many of it there are."""
    single, star, count = name.partition("*")
    entry = ARCHITECTURES.find(single)
    if not star:
        return entry, 1
    if not re.fullmatch("[1-9][0-9]{0,2}", count) or not 2 <= int(count) <= MOST_COPIES:
        raise InputError(f"{single}*K needs a whole number K from 2 to {MOST_COPIES}, as in {single}*3, got {name!r}")
    if not entry.classifies:
        raise InputError(f"only classifiers can be averaged, and {single} returns images; train it alone")
    return entry, int(count)


def _refuse_unfit(spec: Architecture, entry: _Entry) -> None:
    _, height, width = spec.input_shape
    if min(height, width) < entry.min_side:
        raise InputError(
            f"input_shape of {spec.name} must be at least {entry.min_side} x {entry.min_side}, got {height} x {width}; "
            "choose a network for smaller images, such as lenet, or enlarge them"
        )
    if entry.classifies and spec.num_classes < 2:
        raise InputError(f"num_classes of the classifier {spec.name} must be at least 2, got {spec.num_classes}")
    if not entry.classifies and spec.mean:
        raise InputError(f"mean and std of {spec.name} must be empty: it maps raw pixels to raw pixels")
