"""What noises that can be drawn on a grid share: the grid, inputs beside it, and sums without rounding."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.randomness import BY_ROW, JoinedRows, RowStream
from smoothcert.noise.base import Noise
from smoothcert.noise.grid import KEY_BITS, MOST_STEPS, RoundedLaw, draw_steps, fill_steps
from smoothcert.noise.rows import Floats
from smoothcert.stats.rounding import SAFETY, rounded_down

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_GRID_LEVELS = 65535
"""The finest grid is that of 16-bit images."""

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

    of_one_input: ClassVar[frozenset[str]] = frozenset({"offset"})
    grid: float | None = field(default=None, kw_only=True)
    offset: float = field(default=0.0, kw_only=True)  # of one input from the grid, rounded up; filled in by `at`

    @abstractmethod
    def _law(self, levels: int) -> RoundedLaw:
        """The law of the noise, rounded to multiples of 1/levels."""

    def _check_grid(self) -> None:
        """Refuse a grid or an offset that cannot be, and noise too wide for the grid."""
        levels = self.levels
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
        if self.levels is not None:
            _check_near(x, self.levels)
        return self

    def at(self, x: Tensor) -> Self:
        """This noise around one input x (...): with its distance from the grid, in l1 or l2, as `offset`."""
        levels = self.levels
        if levels is None:
            return self
        named = x.detach().float().cpu().numpy()
        exact = named.astype(np.float64) * levels  # 24 and 16 bits: nothing is lost
        steps = np.rint(exact)
        beside = named != steps.astype(np.float32) / np.float32(levels)
        gaps = np.abs(exact - steps)[beside]
        order = 1 if self.norm == "l1" else 2
        return dataclasses.replace(self, offset=grid_offset(gaps.tolist(), named.size, levels, order))

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

    def options(self) -> dict[str, Any]:
        """As every noise; the grid by its levels, or "off": the command line would choose one."""
        return super().options() | {"grid": "off" if self.levels is None else self.levels}

    def gridless(self) -> Self:
        """The same noise, drawn in float32, at no distance from anything."""
        return dataclasses.replace(self, grid=None, offset=0.0)

    @property
    def levels(self) -> int | None:
        """q of the grid 1/q."""
        return None if self.grid is None else grid_levels(self.grid)

    def _draw_on_grid(self, x: Tensor, generator: torch.Generator, strength: Tensor | None) -> Tensor:
        """(nearest grid point of x) + k, over q; every sum is exact, and every quotient is rounded once."""
        import torch

        levels = self.levels
        assert levels is not None
        each = [] if strength is None else strength.tolist()
        if len(set(each)) > 1:
            rows = zip(x, each, strict=True)
            return torch.cat([self.with_strength(one)._draw_on_grid(row[None], generator, None) for row, one in rows])
        noise = self.with_strength(each[0]) if each else self
        # The engine hands in one input, expanded: then it is rounded once and not once per row.
        steps = grid_steps(x[:1] if x.stride(0) == 0 else x, levels)
        noisy = draw_steps(noise._law(levels), x.numel(), generator, x.device).view(x.shape).add_(steps)
        # A tensor, not a number: on some devices torch multiplies with the rounded reciprocal of a number.
        return noisy.div_(torch.tensor(float(levels), device=x.device)).to(x.dtype)

    def _fill_on_grid(self, x: Floats, stream: RowStream, first: int, out: Floats) -> None:
        """The same from a row's own bits."""
        levels = self.levels
        assert levels is not None
        fill_steps(self._law(levels), stream, first, out)
        out += _grid_steps(x, levels)
        out /= np.float32(levels)

    def draw_together(self, xs: Sequence[Tensor], rows: JoinedRows, out: Tensor) -> None:
        """The same copies; on a grid, whole numbers for all of them are looked up at once."""
        levels, known = self.levels, getattr(type(self).fill_rows, "exact_on_grid", False)
        if levels is None or not known or self.stream_kind(out.device) != BY_ROW:
            super().draw_together(xs, rows, out)
            return
        flat, end = out.view(len(out), -1).numpy(), 0
        fill_steps(self._law(levels), rows, 0, flat)
        for x, (_, _, count) in zip(xs, rows.parts, strict=True):
            flat[end : end + count] += _grid_steps(x.numpy().reshape(-1), levels)
            end += count
        flat /= np.float32(levels)


Fill = Callable[[Any, Floats, RowStream, int, Floats], None]


def exact_on_grid(fill: Fill) -> Fill:
    """Let a noise's `fill_rows`, which is for float32, fill exactly where there is a grid (decorator).

    It is known by this that rows of several inputs can be filled together; who fills otherwise leaves it out.
    """

    @wraps(fill)
    def fill_rows(self: GriddedNoise, x: Floats, stream: RowStream, first: int, out: Floats) -> None:
        if self.grid is None:
            fill(self, x, stream, first, out)
        else:
            self._fill_on_grid(x, stream, first, out)

    fill_rows.exact_on_grid = True  # type: ignore[attr-defined]
    return fill_rows


def grid_levels(grid: object) -> int:
    """The whole number q of a grid 1/q."""
    if isinstance(grid, int | float) and not isinstance(grid, bool) and 1 / (MOST_GRID_LEVELS + 0.5) < grid < 1.5:
        levels = round(1 / grid)
        if math.isclose(levels * grid, 1, rel_tol=1e-9):
            return levels
    raise InputError(
        f"grid must be one over a whole number up to {MOST_GRID_LEVELS}, such as 1/255 for 8-bit images, got {grid}"
    )


def grid_offset(gaps: Sequence[float], dim: int, levels: int, order: int) -> float:
    """How far an input of `dim` numbers is from its nearest grid point, rounded up; `gaps` are in steps of 1/levels.

    In l1 or l2 (`order`), up to the next sixteenth of the largest possible distance: then a data set has few offsets,
    and procedures that prepare tables for a geometry need few of them.
    """
    distance = math.pow(math.fsum(gap**order for gap in gaps), 1 / order)
    largest = math.pow(dim, 1 / order) / 2
    sixteenths = math.ceil(distance / largest * 16)
    return sixteenths * largest / 16 / levels * (1 + SAFETY)


def less_offset(radius: float, offset: float) -> float:
    """A radius less an offset; what the radius lost by rounding must not be measured by the smaller difference."""
    return rounded_down(radius) - offset if offset else radius


def grid_steps(x: Tensor, levels: int) -> Tensor:
    """The nearest grid points of x (...), in steps of 1/levels, as float32; inputs too far from 0 are refused."""
    _check_near(x, levels)
    return x.double().mul(levels).round_().float()  # of float32 inputs: the product is exact


def _grid_steps(x: Floats, levels: int) -> Floats:
    """The same of an array."""
    exact = np.multiply(x, levels, dtype=np.float64)
    if not max(exact.max(), -exact.min()) <= MOST_LEVELS:
        raise _too_far(levels)
    return np.rint(exact).astype(np.float32)


def _check_near(x: Tensor, levels: int) -> None:
    if not max(abs(float(end)) for end in x.aminmax()) * levels <= MOST_LEVELS:
        raise _too_far(levels)


def _too_far(levels: int) -> InputError:
    return InputError(
        f"inputs must lie within {MOST_LEVELS / levels:g} of 0 for a grid of 1/{levels}; "
        "scale them, or take a coarser grid"
    )
