"""An attack that goes on from epoch to epoch, where others begin anew at every batch."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.training.objectives.attack import ATTACKS, Attack, Look, column, unit_direction


@ATTACKS.add
@dataclass(frozen=True)
class Carried(Attack):
    """Ascent along one direction per input that goes on from epoch to epoch: one gradient each time, and many in all.

    A step looks at the point that lies eps along the direction so far; the new direction is that of `decay` times the
    old one plus the normalised gradient there, both of length 1, and the answer lies eps along it. Training keeps the
    direction of each input until the next epoch; without one, as in the first, a single step is one of PGD of length
    eps. After Zheng et al. 2020 (transferable adversarial examples), who go on from the perturbation itself; with a
    momentum like that of Dong et al. 2018, but put back to length 1 after every step, so that it soon forgets. The
    inputs must be the same in every epoch.
    """

    name: ClassVar[str] = "carried"
    carries: ClassVar[bool] = True
    steps: int = 1
    decay: float = 0.9
    # Of length 1 or 0, (B, ...); overwritten with what the attack comes to.
    directions: Tensor | None = dataclasses.field(
        default=None, kw_only=True, compare=False, repr=False, metadata={"described": False}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("eps", self.eps), ("decay", self.decay)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InputError(
                    f"{name} of an attack that is carried on must be a finite number of at least 0, got {value!r}"
                )

    def carrying(self, directions: Tensor) -> Self:
        """See `Attack.carrying`."""
        return dataclasses.replace(self, directions=directions)

    def _ascend(self, x: Tensor, spare: Tensor, look: Look, y: Tensor) -> Tensor:
        direction, eps = torch.zeros_like(x) if self.directions is None else self.directions, column(self.eps, x)
        if direction.shape != x.shape:
            raise InputError(f"directions of an attack must be like x {tuple(x.shape)}, got {tuple(direction.shape)}")
        for _ in range(self.steps):
            _, gradient = look(self._valid(x + eps * direction))
            direction = unit_direction(self.decay * direction + unit_direction(gradient, spare), spare)
        if self.directions is not None:
            self.directions.copy_(direction)
        return eps * direction
