"""What training keeps of each input from epoch to epoch: its noise, the direction of its attack, how it is answered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import generator
from smoothcert.training.augment import Augment
from smoothcert.training.data import TrainingData
from smoothcert.training.discard import Discard
from smoothcert.training.group import Group
from smoothcert.training.objectives import Objective
from smoothcert.training.settings import Settings

MOST_BYTES = 2**34
"""Of directions: they are as large as the inputs, in 16 bits."""

ROWS = 256
"""Noisy copies per call, to see which inputs are hard."""

UNKNOWN = -1.0
"""In place of a share of answers."""


class OfInputs:
    """Nothing, unless the settings have `ds2` or `discard`, or the objective an attack that is carried on."""

    def __init__(self, objective: Objective, settings: Settings, data: TrainingData, device: torch.device) -> None:
        self._settings, self._size = settings, len(data)
        self.kept: dict[str, Tensor] = {}  # by name, (N, ...)
        if settings.ds2 is not None:
            self.kept["strengths"] = settings.ds2.first(objective, len(data), device)
        if settings.discard is not None:
            if not objective.classifies:
                raise InputError(
                    f"discard judges inputs by their labels, and {objective.name} without a classifier answers none; "
                    "leave discard out"
                )
            self.kept["answers"] = torch.full((len(data),), UNKNOWN, device=device)
        if objective.carries:
            self.kept["directions"] = _no_directions(settings, data, device)

    def improved(
        self, objective: Objective, model: nn.Module, x: Tensor, rows: Tensor, when: tuple[str, int]
    ) -> Tensor | None:
        """The strengths of the inputs x, which are `rows`, (B,); None where all have that of the noise."""
        ds2 = self._settings.ds2
        if ds2 is None or objective.epoch is None or objective.epoch < ds2.start:
            return None
        strengths = self.kept["strengths"]
        stream = generator(self._settings.seed, "train", f"sigma/{when[0]}", when[1], strengths.device)
        strengths[rows] = ds2.improve(objective, model, x, strengths[rows], stream)
        return strengths[rows]

    @contextmanager
    def carried(self, objective: Objective, rows: Tensor) -> Iterator[Objective]:
        """The objective with its attack going on from the directions of `rows`; those it comes to are kept."""
        if "directions" not in self.kept:
            yield objective
            return
        kept = self.kept["directions"]
        directions = kept[rows].float()
        yield objective.carrying(directions)
        kept[rows] = directions.to(kept.dtype)

    def left(
        self, epoch: int, group: Group, judge: Callable[[Discard, Tensor, int], Tensor], say: Callable[[], None]
    ) -> Tensor:
        """Which inputs an epoch is about, (N,): all, until hard ones are left out.

        `judge` tells how often the model answers some rows with their labels, given the number of that part; processes
        share the parts. `say` is called after each: it may take minutes.
        """
        discard = self._settings.discard
        if discard is None or epoch < discard.start:
            return torch.ones(self._size, dtype=torch.bool)
        answers = self.kept["answers"]
        if bool((answers == UNKNOWN).any()):
            parts = torch.split(torch.arange(self._size), max(1, ROWS // discard.draws))
            found = torch.zeros_like(answers)
            for number in range(group.rank, len(parts), group.size):
                found[parts[number]] = judge(discard, parts[number], number)
                say()
            if group.size > 1:
                group.add_up([found])
            answers.copy_(found)
        left = (answers >= discard.below).cpu()
        if not bool(left.any()):
            raise InputError(
                f"discard would leave no input: after {epoch} epochs the model gives no input its label in "
                f"{discard.below:g} of its answers; raise start of discard, lower below, or go on with a trained model"
            )
        return left

    def shares(self, rows: Tensor, mine: Tensor) -> list[Tensor]:
        """What is kept of `rows` where it is this process that knows it, zeros elsewhere: processes add them up."""
        return [
            torch.where(mine.view(-1, *[1] * (value.dim() - 1)), value[rows], 0.0).float()
            for value in self.kept.values()
        ]

    def keep(self, rows: Tensor, values: Sequence[Tensor]) -> None:
        """What all processes together know of `rows`."""
        for kept, value in zip(self.kept.values(), values, strict=True):
            kept[rows] = value.to(kept.dtype)


def _no_directions(settings: Settings, data: TrainingData, device: torch.device) -> Tensor:
    if settings.augment != Augment():
        raise InputError(
            "an attack that is carried on needs images that stay as they are: leave out crop, flip, affine and "
            "elastic, or take another attack, such as pgd"
        )
    first, again = (data.batch(torch.tensor([0]))[0] for _ in range(2))
    if not torch.equal(first, again):
        raise InputError(
            "an attack that is carried on needs inputs that stay as they are, and this data set gives other ones every "
            "time: take another attack, such as pgd"
        )
    shape = (len(data), *first.shape[1:])
    size = 2 * math.prod(shape)
    if size > MOST_BYTES:
        raise InputError(
            f"an attack that is carried on keeps a direction of each of {len(data)} inputs, {size / 1e9:.0f} GB; "
            "train on fewer, or take another attack, such as pgd"
        )
    return torch.zeros(shape, dtype=torch.bfloat16, device=device)
