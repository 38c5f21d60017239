"""What every room asks of a model: where it lives, and to be in evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from smoothcert.core.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Model = Callable[["Tensor"], "Tensor"]
"""A module, or a function of tensors: inputs (B, ...) -> scores (B, C)."""


def device_of(model: Model) -> torch.device:
    """Where the model lives; the CPU for a function."""
    import torch  # noqa: PLC0415 (whoever only names models does not wait for it)
    from torch import nn  # noqa: PLC0415

    if isinstance(model, nn.Module):
        for tensor in (*model.parameters(), *model.buffers()):
            return tensor.device
    return torch.device("cpu")


@contextmanager
def evaluating(*models: Model) -> Iterator[None]:
    """Modules in evaluation mode; every part is back in its own mode afterwards, also after an exception."""
    from torch import nn  # noqa: PLC0415

    modules = [model for model in models if isinstance(model, nn.Module)]
    modes = [(part, part.training) for module in modules for part in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def count_classes(model: Model, example: Tensor | None) -> int:
    """How many scores the model gives: as it says itself, else asked of it with the inputs `example`, (B, ...)."""
    import torch  # noqa: PLC0415

    known = getattr(model, "num_classes", None)
    if isinstance(known, int):
        return known
    if example is None:
        raise InputError("give num_classes, the number of scores that the model answers")
    with torch.inference_mode(), evaluating(model):
        shape = tuple(model(example.to(device_of(model), copy=True)).shape)
    if len(shape) != 2 or shape[0] != len(example):
        raise InputError(f"model must answer a score per class, (B, C), got {shape} for B = {len(example)}")
    return int(shape[1])
