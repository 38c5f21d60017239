"""What a model raises, said in one sentence: too little memory, another precision, another order of axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model

# What torch, its allocators and the runtimes say; they have no class of error in common.
_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "failed to allocate",
    "bad_alloc",
    "bad alloc",
)


@contextmanager
def naming_batch_size(rows: int, shape: Sequence[int]) -> Iterator[None]:
    """Refuse what does not fit into memory in a sentence that names the way out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        raise InputError(
            f"there is not enough memory for {rows} noisy inputs of shape {tuple(shape)} at once; "
            f"give a batch_size below {rows}"
        ) from None


@contextmanager
def explained(model: Model, rows: int, shape: Sequence[int]) -> Iterator[None]:
    """Refuse a model that cannot be run on inputs of this shape, whatever it raises, and guess the way out."""
    try:
        with naming_batch_size(rows, shape):
            yield
    except InputError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        raise InputError(
            f"model cannot be run on a float32 batch of shape {(rows, *shape)} ({said[:200]}); {_way_out(model, shape)}"
        ) from error


def _is_memory(error: Exception) -> bool:
    said = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(word in said for word in _MEMORY)


def _way_out(model: Model, shape: Sequence[int]) -> str:
    types = {p.dtype for p in model.parameters() if p.is_floating_point()} if isinstance(model, nn.Module) else set()
    if types and types != {torch.float32}:
        names = ", ".join(sorted(str(one).removeprefix("torch.") for one in types))
        return f"its weights are {names}: convert them to one kind, as in model.float(), or inputs inside the model"
    if len(shape) == 3 and shape[2] in (1, 3) and shape[0] > 4:
        return "if these are images with the channels last, give x.permute(0, 3, 1, 2)"
    return "try it on such a batch by itself, and give inputs of the shape that it was made for"
