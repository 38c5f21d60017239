"""The contract of a noise: its law, how it is drawn, and its geometry (the norm, radii, and what radii need).

Nothing here imports torch before something is drawn.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from smoothcert.core.described import Described, fields_of
from smoothcert.core.errors import InputError
from smoothcert.core.randomness import BLOCK, BY_BLOCK, BY_ROW, JoinedRows, RowStream
from smoothcert.core.registry import Registry
from smoothcert.noise.rows import Floats

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NOISES: Registry[type[Noise]] = Registry("noise")
"""Noises by name. A noise registers itself (`@NOISES.add`), in its own file, or in one from outside the package."""

SOFT_CLAMP = 1e-6
"""Soft radii are of scores in [1e-6, 1 - 1e-6] unless told otherwise: float32 is at 1 already beyond 1 - 6e-8."""


@dataclass(frozen=True)
class Noise(Described, ABC):
    """A distribution around an input. Frozen; its strength (sigma, half width, ...) is a field.

    A new noise sets `name` and `strength_name`, and says `norm`, `draw`, `radius` and `required_p`; everything else
    has a default that is right for it (with `fill_rows`, few draws are cheaper). It is described by its name, fields
    and norm, and made again from that (`Noise.from_description`), so its geometry follows from its fields alone.
    """

    registry: ClassVar[Registry[Any]] = NOISES
    strength_name: ClassVar[str]
    additive: ClassVar[bool] = False
    """Drawn as x + strength * (a noise that knows neither x nor the strength): so strengths can be searched for each
    input, and noise that was drawn for one point can be added to another one."""
    of_inputs: ClassVar[frozenset[str]] = frozenset()
    """Fields that `for_inputs` fills in."""
    of_one_input: ClassVar[frozenset[str]] = frozenset()
    """Fields that `at` fills in: they differ between the inputs of a run."""

    @property
    @abstractmethod
    def norm(self) -> str:
        """The norm that radii are measured in: "l2", "l1", "l0" or "linf"."""

    @abstractmethod
    def draw(self, x: Tensor, generator: torch.Generator, strength: Tensor | None = None) -> Tensor:
        """One noisy copy of every row of x, (B, ...) -> (B, ...); `strength` (B,) gives each row its own."""

    def fill_rows(self, x: Floats, stream: RowStream, first: int, out: Floats) -> None:
        """Noisy copies number `first`, `first + 1`, ... of x (d,) into out (rows, d), from bits of its row.

        For noises that are drawn by row on a CPU; others leave it out, and are drawn by blocks.
        """
        raise NotImplementedError(f"{self.name} noise is not drawn by row")

    def draw_rows(self, x: Tensor, stream: RowStream, first: int, out: Tensor) -> None:
        """Noisy copies number `first`, `first + 1`, ... of one input x (...) into out (rows, ...).

        A copy is a function of the stream, its number and x: never of which others are drawn with it. Where a noise
        only knows `draw`, a generator draws a whole block for any row of it.
        """
        if self.stream_kind(out.device) == BY_ROW:
            flat = out.view(len(out), -1)  # (rows, d), in the same memory
            self.fill_rows(x.numpy().reshape(-1), stream, first, flat.numpy())
            return
        whole, end = x.expand(BLOCK, *x.shape), first + len(out)
        for block in range(first // BLOCK, -(-end // BLOCK)):
            low, high = max(first, block * BLOCK), min(end, (block + 1) * BLOCK)
            drawn = self.draw(whole, stream.generator(block, out.device))
            out[low - first : high - first] = drawn[low - block * BLOCK : high - block * BLOCK]

    def draw_together(self, xs: Sequence[Tensor], rows: JoinedRows, out: Tensor) -> None:
        """Noisy copies of several inputs into out (rows of all, ...): of each the rows of its part. The same copies."""
        end = 0
        for x, (stream, first, count) in zip(xs, rows.parts, strict=True):
            self.draw_rows(x, stream, first, out[end : end + count])
            end += count

    @classmethod
    def stream_kind(cls, device: torch.device | str) -> str:
        """Where the random bits of `draw_rows` come from on a device, as records say it.

        By row only where `fill_rows` is at least as near as `draw`: who inherits from a noise and draws otherwise means
        to be drawn otherwise.
        """
        kind = device if isinstance(device, str) else device.type
        return BY_ROW if _drawn_by_row(cls) and kind.partition(":")[0] == "cpu" else BY_BLOCK

    @abstractmethod
    def radius(self, p_lower: float, p_upper: float | None = None) -> float:
        """The radius certified by p_A >= p_lower and p_B <= p_upper (default 1 - p_lower), rounded down; at least 0."""

    @abstractmethod
    def required_p(self, radius: float) -> float:
        """The smallest p_lower whose radius reaches `radius` with p_upper = 1 - p_lower, rounded up."""

    def soft_radius(
        self, top: Tensor, second: Tensor, strength: Tensor | None = None, *, clamp: float = SOFT_CLAMP
    ) -> Tensor:
        """Differentiable radius of the two largest mean scores, (B,) each -> (B,); refused where a noise has none.

        A noise whose radius is infinite at scores of 0 or 1 clamps them to [clamp, 1 - clamp].
        """
        raise InputError(f"{self.name} noise has no differentiable radius; take the method bracket")

    @property
    def has_soft_radius(self) -> bool:
        """Whether there is a differentiable radius."""
        return type(self).soft_radius is not Noise.soft_radius

    @property
    def strength(self) -> float:
        """How strong the noise is as it is drawn, in float32: radii are computed for this number, not for its name."""
        return float(np.float32(getattr(self, self.strength_name)))

    def with_strength(self, strength: float) -> Self:
        """The same noise at another strength: per-input strengths are lists of these."""
        return dataclasses.replace(self, **{self.strength_name: strength})

    @property
    def levels(self) -> int | None:
        """Steps per unit of the grid that the noise is drawn on; None: there is no grid."""
        return None

    def gridless(self) -> Self:
        """The same noise, drawn in float32."""
        return self

    def for_inputs(self, x: Tensor) -> Self:
        """This noise, bound to inputs like x (B, ...); refuses inputs that it cannot be added to soundly."""
        return self

    def at(self, x: Tensor) -> Self:
        """This noise around one input x (...): with what only that input decides."""
        return self

    def describe(self) -> dict[str, Any]:
        """Name, parameters and norm, as they stand in a record."""
        # Sums of float32 numbers: an adversarial classifier can see the rounding of x + noise. `GriddedNoise` cures it.
        return {"name": self.name} | fields_of(self) | {"norm": self.norm, "arithmetic": "float32"}

    @classmethod
    def from_description(cls, description: object) -> Self:
        """The noise that describes itself like this; anything else is refused. The only way back from a record."""
        try:
            return cast(Self, _made(cls, json.dumps(description)))  # a run has thousands of records of a few noises
        except TypeError:  # it never was JSON
            return super().from_description(description)

    def options(self) -> dict[str, Any]:
        """What the command line is given beside name and strength to make this noise: {"values": 256}."""
        left_out = {self.strength_name} | self.of_inputs | self.of_one_input
        return {name: value for name, value in fields_of(self).items() if name not in left_out and value is not None}

    def _check_strength(self) -> None:
        """Refuse a strength that is no positive number as it is drawn."""
        value = getattr(self, self.strength_name)
        check_positive(self.strength_name, value)
        if self.levels is None and not 2.0**-149 <= value <= float(np.finfo(np.float32).max):
            raise InputError(f"{self.strength_name} must be a number that float32 can hold, got {value}")


@lru_cache(maxsize=1024)
def _drawn_by_row(kind: type[Noise]) -> bool:
    of_draw, of_rows = (next(one for one in kind.__mro__ if name in vars(one)) for name in ("draw", "fill_rows"))
    return of_rows is not Noise and issubclass(of_rows, of_draw)


@lru_cache(maxsize=1024)
def _made(kind: type[Noise], described: str) -> Noise:
    return super(Noise, kind).from_description(json.loads(described))


def noise_kind(description: object) -> type[Noise] | None:
    """The class of a noise that is described by name; None where no noise of that name is known."""
    try:
        return NOISES.find(description.get("name")) if isinstance(description, Mapping) else None
    except InputError:
        return None


def check_positive(name: str, value: float) -> None:
    """Refuse a scale that is not a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise InputError(f"{name} must be a positive finite number, got {value}")


def per_row(strength: Tensor, x: Tensor) -> Tensor:
    """A strength per row, (B,), shaped to multiply x (B, ...)."""
    return strength.to(x).view(-1, *[1] * (x.dim() - 1))  # (B, 1, ..., 1)
