"""Your own data as arrays or tensors in memory."""

from typing import Any

import numpy as np

from smoothcert.core.errors import InputError
from smoothcert.core.labels import UNKNOWN
from smoothcert.datasets.dataset import Dataset
from smoothcert.datasets.npz import as_inputs, as_labels, exact_levels


def from_arrays(x: Any, y: Any = None, *, name: str = "arrays", split: str = "test") -> Dataset:
    """A data set of inputs `x` (N, ...) and class numbers `y` (N,), if known; tensors, arrays and lists will do.

    8-bit images are taken as from an .npz file, (N, H, W), (N, H, W, C) or (N, C, H, W). Floating-point inputs keep
    their shape; images (N, C, H, W) whose values are all exactly k/255 are 8-bit images, too, of the range [0, 1].
    """
    try:
        inputs = _array(x)
        labels = np.full(len(inputs), UNKNOWN, dtype=np.int64) if y is None else as_labels(_array(y), "y")
        if inputs.dtype == np.uint8:
            inputs = as_inputs(inputs, "x")
        elif inputs.dtype.kind != "f" or inputs.ndim < 2:
            raise ValueError(f"x is {inputs.dtype} {inputs.shape}, neither uint8 images nor floating-point inputs")
        elif inputs.ndim == 4 and inputs.shape[1] in (1, 3) and (levels := exact_levels(inputs)) is not None:
            inputs = levels
        else:
            inputs = inputs.astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"data (x, y) must be inputs (N, ...) and class numbers (N,): {error}") from None
    classes = 0 if y is None else max(2, 1 + int(labels.max()))
    input_range = (0.0, 1.0) if inputs.dtype == np.uint8 else None
    return Dataset(name, split, inputs, labels, classes, input_range, tuple(str(label) for label in range(classes)))


def _array(values: Any) -> Any:
    """As numpy has it; a tensor may be on any device, and may require a gradient."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
