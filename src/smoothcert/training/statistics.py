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
    averaged, weighted by their sizes: the same for any number of processes. Batches are counted likewise, which decides
    where a batch-norm without momentum moves.
    """

    def __init__(self, model: nn.Module) -> None:
        norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
        self.buffers: list[Tensor] = [b for n in norms for b in (n.running_mean, n.running_var) if b is not None]
        self.counts: list[Tensor] = [n.num_batches_tracked for n in norms if n.num_batches_tracked is not None]
        self.before: list[Tensor] = []
        self.sums: list[Tensor] = []  # of statistics and counts over the chunks, each times its share

    def start(self) -> None:
        """A batch begins."""
        self.before = [buffer.clone() for buffer in (*self.buffers, *self.counts)]
        self.sums = [torch.zeros_like(buffer) for buffer in self.buffers]
        self.sums += [torch.zeros_like(count, dtype=torch.float32) for count in self.counts]

    @contextmanager
    def chunk(self, share: float) -> Iterator[None]:
        """What happens inside counts for this share of the batch."""
        yield
        if self.buffers:
            size = len(self.buffers)
            torch._foreach_add_(self.sums[:size], self.buffers, alpha=share)
            for total, count, before in zip(self.sums[size:], self.counts, self.before[size:], strict=True):
                total.add_(count - before, alpha=share)
            torch._foreach_copy_([*self.buffers, *self.counts], self.before)

    def end(self) -> None:
        """The batch is over, and `sums` are complete."""
        if self.buffers:
            size = len(self.buffers)
            torch._foreach_copy_(self.buffers, self.sums[:size])
            for count, total in zip(self.counts, self.sums[size:], strict=True):
                count.add_(total.round().to(count.dtype))


def sizes(total: int, size: int) -> list[int]:
    """How `total` rows are split into parts of `size` and a rest.

    A rest of one row goes to the part before it: batch-norm has no variance of one row.
    """
    whole, rest = divmod(total, size)
    if rest == 1 and whole and size > 1:
        return [size] * (whole - 1) + [size + 1]
    return [size] * whole + [rest] * (rest > 0)
