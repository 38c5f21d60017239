"""Batch-norm over a batch that is processed in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class RunningStatistics:
    """The running means and variances of a model's batch-norms, moved once per batch: by the mean over its chunks.

    torch would move them once per chunk, each from where the last one left them, and processes that share the chunks of
    a batch would drift apart. So every chunk starts from the same statistics, and what the chunks make of them is
    averaged, weighted by their sizes: the same for any number of processes.
    """

    def __init__(self, model: nn.Module) -> None:
        norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
        self.buffers: list[Tensor] = [b for n in norms for b in (n.running_mean, n.running_var) if b is not None]
        self.before: list[Tensor] = []
        self.mean: list[Tensor] = []

    def start(self) -> None:
        """A batch begins."""
        self.before = [buffer.clone() for buffer in self.buffers]
        self.mean = [torch.zeros_like(buffer) for buffer in self.buffers]

    @contextmanager
    def chunk(self, share: float) -> Iterator[None]:
        """What happens inside counts for this share of the batch."""
        yield
        if self.buffers:
            torch._foreach_add_(self.mean, self.buffers, alpha=share)
            torch._foreach_copy_(self.buffers, self.before)

    def end(self) -> None:
        """The batch is over, and `mean` is complete."""
        if self.buffers:
            torch._foreach_copy_(self.buffers, self.mean)
