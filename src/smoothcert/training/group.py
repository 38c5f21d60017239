"""The processes that train one model together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """This process, `rank`, among `size` processes that call the same methods in the same order. Alone by default."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> Group:
        """The group of torch.distributed, if it was initialised; else this process alone."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(), dist.get_world_size())

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, in place, by its sum over the processes: one message for all."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        for tensor, total in zip(tensors, torch.split(flat, [t.numel() for t in tensors]), strict=True):
            tensor.copy_(total.view(tensor.shape))

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, in place, by the one of the first process."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def gather(self, value: T) -> list[T]:
        """The value of every process, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value)
        return values


@contextmanager
def launched(device: str) -> Iterator[str]:
    """Join the group that `torchrun` started, if it did, for as long as the block lasts; gives this process's device.

    GPUs talk through NCCL, one per process; CPUs through gloo. No thread of the group outlives the block: one that
    still holds a tensor when Python ends aborts the process.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        yield device
        return
    # Functions of this module have the group, if there is one when they are loaded, as a default, and so keep it alive
    # for ever; an optimizer loads them.
    import torch.distributed.nn  # noqa: PLC0415

    cuda = torch.device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()
