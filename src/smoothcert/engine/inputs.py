"""What was given as inputs, as a batch of float32; or a sentence that says why it cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothcert.core.errors import InputError

Inputs = Tensor | np.ndarray[Any, Any]


def as_batch(x: Inputs, shape: tuple[int, ...] | None, bounds: tuple[float, float] | None) -> Tensor:
    """Inputs as float32 (B, ...), a copy; refused where they cannot be what was meant.

    With the shape of one input, x is one input or a batch. Without it, the first axis of x counts inputs; but one axis
    alone is one vector, since a batch of single numbers is (B, 1), and three axes are refused: (5, 28, 28) may be five
    grey images, or one image of five channels.
    """
    batch = _as_tensor(x)
    if not batch.is_floating_point():
        raise InputError(f"inputs must be floating point, got {batch.dtype}; divide 8-bit images by 255")
    given = tuple(batch.shape)
    one = batch.dim() == 1 if shape is None else given == shape
    if shape is None and batch.dim() == 3:
        raise InputError(
            f"inputs of shape {given} can be read as one input or as a batch of {given[0]}: say which by "
            f"Smoothed(..., input_shape={given}) or input_shape={given[1:]}, or give x[None] for one input"
        )
    batch = (batch[None] if one else batch).float()
    if shape is not None and tuple(batch.shape[1:]) != shape:
        raise InputError(f"inputs must have shape {shape} each, got {_each(given, shape)}{_way_out(given, shape)}")
    if batch.dim() < 2 or not batch.numel():
        raise InputError(f"inputs must be a batch (B, ...) or one input with at least one number, got {given}")
    if not bool(torch.isfinite(batch).all()):
        raise InputError("inputs must be finite, got NaN or infinite values; clean the data first")
    if bounds is not None:
        low, high = float(batch.min()), float(batch.max())
        if low < bounds[0] or high > bounds[1]:
            raise InputError(f"inputs must lie in {list(bounds)}, got values from {low:.4g} to {high:.4g}")
    return batch


def _as_tensor(x: Any) -> Tensor:
    """A copy: the caller may go on changing theirs."""
    first = x[0] if isinstance(x, Sequence) and not isinstance(x, str) and len(x) else x
    if type(first).__module__.partition(".")[0] == "PIL":
        raise InputError(
            "inputs must be a tensor or an array, got a PIL image; convert it: "
            "torch.from_numpy(numpy.array(image)).permute(2, 0, 1)[None] / 255"
        )
    if isinstance(first, Tensor) and first is not x:
        raise InputError(f"inputs must be one tensor, got a {type(x).__name__} of tensors; give torch.stack(x)")
    try:
        if isinstance(x, np.ndarray):
            x = np.ascontiguousarray(x)  # torch knows no negative strides
        return torch.as_tensor(x).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        of = f" of {x.dtype}" if isinstance(x, np.ndarray) else ""
        raise InputError(
            f"inputs must be a tensor or an array of numbers, got {type(x).__name__}{of}; "
            "give a floating-point tensor of shape (B, ...)"
        ) from None


def _each(given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return given if len(given) == len(shape) else given[1:]


def _way_out(given: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Channels last is what images are when they come out of a file."""
    found = _each(given, shape)
    if len(shape) == 3 and found == (*shape[1:], shape[0]):
        order = "2, 0, 1" if len(given) == 3 else "0, 3, 1, 2"
        return f", with the channels last; give x.permute({order})"
    return "; give inputs of that shape, or the right input_shape"
