"""What noises that can be drawn on a grid share: the grid, inputs beside it, and sums without rounding."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.noise.base import Noise
from smoothcert.noise.grid import KEY_BITS, MOST_STEPS, Law, draw_steps
from smoothcert.stats.geometry import grid_levels, grid_offset

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_LEVELS = 2**20
"""How far from 0 an input may be, in grid steps: sums with any noise are then exact in float32."""


@dataclass(frozen=True)
class GriddedNoise(Noise):
    """A noise that is added in float32 or, with `grid` = 1/q, exactly, on the grid of the multiples of 1/q.

    With a grid the certified base classifier is f(Q(.)), Q rounding to the nearest grid point, and the theorem of real
    noise holds for it as it stands: nothing is rounded behind its back. The grid point m/q reaches the model as the
    float32 nearest to m/q, which is what an 8-bit image is for q = 255. An input is on the grid if all of its numbers
    are such floats. Another input is answered through its nearest grid point, and how far that is, `offset`, is
    subtracted from the radius; so too for a perturbed input: one beside the grid is answered through its nearest grid
    point, and the way there counts into the size of the perturbation.
    """

    grid: float | None = field(default=None, kw_only=True)
    offset: float = field(default=0.0, kw_only=True)  # of one input from the grid, rounded up; filled in by `at`

    @abstractmethod
    def _law(self, levels: int) -> Law:
        """The law of the noise, rounded to multiples of 1/levels."""

    def _check_grid(self) -> None:
        """Refuse a grid or an offset that cannot be, and noise too wide for the grid."""
        levels = self._levels
        if not 0 <= self.offset < math.inf or (self.offset and levels is None):
            raise InputError(f"offset must be 0, or a distance from the grid that is given, got {self.offset}")
        if levels is None:
            return
        object.__setattr__(self, "grid", 1 / levels)
        if self.strength * levels > MOST_STEPS or self._law(levels).reach(KEY_BITS) > MOST_STEPS:
            raise InputError(
                f"{self.strength_name} must be smaller for a grid of 1/{levels}, got {self.strength:g}; "
                "take a coarser grid"
            )

    @property
    def strength(self) -> float:
        """As in float32 without a grid; with one the noise is drawn for this very number."""
        return super().strength if self.grid is None else float(getattr(self, self.strength_name))

    def for_inputs(self, x: Tensor) -> Self:
        """Refuse inputs too far from 0 for the grid."""
        if self._levels is not None:
            _check_near(x, self._levels)
        return self

    def at(self, x: Tensor) -> Self:
        """This noise around one input x (...): with its distance from the grid, in l1 or l2, as `offset`."""
        if self._levels is None:
            return self
        import torch

        named, levels = x.detach().to("cpu", torch.float32).numpy(), np.float32(self._levels)
        exact = named.astype(np.float64) * self._levels  # 24 and 16 bits: nothing is lost
        steps = np.rint(exact)
        beside = named != steps.astype(np.float32) / levels
        gaps = np.abs(exact - steps)[beside]
        return dataclasses.replace(
            self, offset=grid_offset(gaps.tolist(), named.size, self._levels, 1 if self.norm == "l1" else 2)
        )

    def describe(self) -> dict[str, Any]:
        """As every noise; a grid and an offset where there are any."""
        described = super().describe()
        if self.grid is None:
            del described["grid"]
        else:
            described["arithmetic"] = "grid"
        if not self.offset:
            del described["offset"]
        return described

    def _draw_on_grid(self, x: Tensor, generator: torch.Generator, strength: Tensor | None) -> Tensor:
        """(nearest grid point of x) + k, over q; every sum is exact, and every quotient is rounded once."""
        import torch

        levels = self._levels
        assert levels is not None
        each = [] if strength is None else strength.tolist()
        if len(set(each)) > 1:
            rows = zip(x, each, strict=True)
            return torch.cat([self.with_strength(one)._draw_on_grid(row[None], generator, None) for row, one in rows])
        noise = self.with_strength(each[0]) if each else self
        # The engine hands in one input, expanded: then it is rounded once and not once per row.
        steps = nearest(x[:1] if x.stride(0) == 0 else x, levels)
        noisy = draw_steps(noise._law(levels), x.numel(), generator, x.device).view(x.shape).add_(steps)
        # A tensor, not a number: on some devices torch multiplies with the rounded reciprocal of a number.
        return noisy.div_(torch.tensor(float(levels), device=x.device)).to(x.dtype)

    @property
    def _levels(self) -> int | None:
        return None if self.grid is None else grid_levels(self.grid)


def nearest(x: Tensor, levels: int) -> Tensor:
    """The nearest grid points of x (...), in steps of 1/levels, as float32; inputs too far from 0 are refused."""
    _check_near(x, levels)
    return x.double().mul(levels).round_().float()  # of float32 inputs: the product is exact


def _check_near(x: Tensor, levels: int) -> None:
    if not max(abs(float(end)) for end in x.aminmax()) * levels <= MOST_LEVELS:
        raise InputError(
            f"inputs must lie within {MOST_LEVELS / levels:g} of 0 for a grid of 1/{levels}; "
            "scale them, or take a coarser grid"
        )
