"""What is looked at before a model is trusted: that it is a fixed function, and what its calls may look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK, RowStream, input_id
from smoothcert.engine.backends.base import in_calls_of, rows_are_independent
from smoothcert.engine.classifier import check_fixed
from smoothcert.engine.model_errors import explained
from smoothcert.noise import Noise

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled

CHECKED = BLOCK
"""Draws that tell whether a model is a fixed function."""

MOST_PACKED = 1024
"""Draws that tell at most whether draws may share a call of a function."""


@dataclass(frozen=True, eq=False)
class FixedFunctionCheck:
    """Refuses a model whose answer is not a fixed function of one input: on some draws around `x`."""

    x: Tensor
    noise: Noise
    seed: int

    def run(self, compiled: Compiled, runner: Model) -> None:
        """Raise InputError, or return."""
        rows, device = min(compiled.task.rows, CHECKED), compiled.device
        with torch.autocast(device.type, enabled=False), explained(compiled.model, rows, compiled.shape):
            draws = _draws(self, CHECKED, device)
            check_fixed(runner, draws, rows, compiled.num_classes, compiled.classifiers)


@dataclass(frozen=True, eq=False)
class PackingCheck:
    """Whether a row gets the same scores, to the last bit, at any place and in any company (`rows_are_independent`)."""

    x: Tensor
    noise: Noise
    seed: int

    @torch.inference_mode()
    def run(self, compiled: Compiled, runner: Model) -> bool:
        """Whether draws of several requests may share a call."""
        rows = compiled.task.rows if compiled.padded else min(compiled.task.rows, MOST_PACKED)
        with torch.autocast(compiled.device.type, enabled=False):
            return rows_are_independent(runner, _draws(self, rows, compiled.device), padded=compiled.padded)


def _draws(of: FixedFunctionCheck | PackingCheck, rows: int, device: torch.device) -> Tensor:
    draws = torch.empty(rows, *of.x.shape, device=device)
    of.noise.draw_rows(of.x.to(device), RowStream(of.seed, input_id(of.x), "check"), 0, draws)
    return draws


@dataclass(frozen=True)
class SplitCheck:
    """Whether rows get the same scores, to the last bit, in calls of `rows` rows as in full ones.

    The order of additions in a kernel depends on shapes alone: where it differs, it shows in nearly every score, so a
    few hundred random rows tell.
    """

    rows: int

    @torch.inference_mode()
    def run(self, compiled: Compiled, runner: Model) -> bool:
        """Whether calls may have so many rows."""
        try:
            small, x = in_calls_of(runner, self.rows), compiled.task.probe()
            if small is None:
                return False
            with torch.autocast(compiled.device.type, enabled=False):
                whole = runner(x.clone())
                parts = torch.cat([small(part.clone()) for part in torch.split(x, self.rows)])
                few = small(x[: self.rows // 2 + 1].clone())
                return torch.equal(whole, parts) and torch.equal(whole[: len(few)], few)
        except Exception:  # a network that cannot be resized, or inputs that are not the model's own
            return False
