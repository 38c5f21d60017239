"""What is looked at before a model is trusted: that it is a fixed function, and whether its calls may be smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothcert.core.model import Model
from smoothcert.core.randomness import BLOCK, generator, input_id
from smoothcert.engine.backends.base import in_calls_of
from smoothcert.engine.classifier import check_fixed
from smoothcert.engine.model_errors import explained
from smoothcert.noise import Noise

if TYPE_CHECKING:
    from smoothcert.engine.compiled import Compiled


@dataclass(frozen=True, eq=False)
class FixedFunctionCheck:
    """Refuses a model whose answer is not a fixed function of one input: on one block of draws around `x`."""

    x: Tensor
    noise: Noise
    seed: int

    def run(self, compiled: Compiled, runner: Model) -> None:
        """Raise InputError, or return."""
        device, x = compiled.device, self.x.to(compiled.device)
        stream = generator(self.seed, input_id(x), "check", 0, device)
        block = self.noise.draw(x.expand(BLOCK, *x.shape), stream)
        rows = compiled.task.rows
        with torch.autocast(device.type, enabled=False), explained(compiled.model, min(rows, BLOCK), compiled.shape):
            check_fixed(runner, block, rows, compiled.num_classes)


@dataclass(frozen=True)
class SplitCheck:
    """Whether rows get the same scores, to the last bit, in calls of `rows` rows as in full ones.

    The order of additions in a kernel depends on shapes alone: where it differs, it shows in nearly every score, so a
    few hundred random rows tell.
    """

    rows: int

    @torch.inference_mode()
    def run(self, compiled: Compiled, runner: Model) -> bool:
        """Whether blocks may be split into parts of so many rows."""
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
