"""What is trained on: tensors, arrays, data sets of this package, and data sets and loaders of torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from smoothcert.core.errors import InputError
from smoothcert.datasets import Dataset
from smoothcert.models.fingerprint import weights_digest

Data = tuple[Any, Any] | Dataset | TorchDataset[Any] | DataLoader[Any]
"""Inputs (N, ...) and labels (N,) as tensors or arrays; a data set; or a data set or loader of torch, of such pairs."""

MOST_BYTES = 2**31  # of float32 inputs that are held at once; a larger data set is read batch by batch


class TrainingData(ABC):
    """Inputs and labels by number."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs with these numbers, (B, ...) float32, and their labels, (B,) int64."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Of the content, as far as it can be known without reading all of it anew."""

    @property
    def largest_label(self) -> int | None:
        """None where it is not known before training."""
        return None


class InMemory(TrainingData):
    """Tensors that are there."""

    def __init__(self, name: str, x: Tensor, y: Tensor) -> None:
        check(name, x, y)
        self.x, self.y, self._largest = x, y, int(y.max())

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of both."""
        return self.x[rows], self.y[rows]

    @cached_property
    def identity(self) -> str:
        """A digest of all numbers."""
        return weights_digest({"inputs": self.x, "labels": self.y})

    @property
    def largest_label(self) -> int:
        """As it is."""
        return self._largest


class _Read(TrainingData):
    """A data set of this package that is too large to be held."""

    def __init__(self, data: Dataset) -> None:
        self.data, self._largest = data, int(data.labels.max())

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        numbers = rows.tolist()
        return self.data.tensors(numbers), torch.from_numpy(self.data.labels[numbers].copy())

    @property
    def identity(self) -> str:
        return self.data.fingerprint

    @property
    def largest_label(self) -> int:
        return self._largest


class _Items(TrainingData):
    """A data set of torch, read item by item: whatever it draws from torch's generator follows from the step."""

    def __init__(self, name: str, items: Any) -> None:
        self.name, self.items = name, items
        self._look(torch.tensor([0, len(items) - 1]))  # what cannot be used is refused at the door

    def __len__(self) -> int:
        return len(self.items)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        pairs = [self.items[number] for number in rows.tolist()]
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
            raise InputError(f"items of {self.name} must be pairs of an input and a label, got {type(pairs[0])}")
        inputs = [one if isinstance(one, Tensor) else torch.from_numpy(np.array(one)) for one, _ in pairs]
        if len({tuple(one.shape) for one in inputs}) > 1:
            raise InputError(f"inputs of {self.name} must have one shape; resize or crop them in its transform")
        x, y = torch.stack(inputs), torch.tensor([int(label) for _, label in pairs])
        check(self.name, x, y)
        return x, y

    @cached_property
    def identity(self) -> str:
        some = torch.linspace(0, len(self) - 1, min(len(self), 16)).long()
        x, y = self._look(some)
        return f"{type(self.items).__qualname__}, {len(self)} items, {weights_digest({'inputs': x, 'labels': y})}"

    def _look(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Always the same, and the caller's generator stays put."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.batch(rows)


def training_data(source: Any, name: str = "data") -> TrainingData:
    """What somebody brings, as the loop takes it; refused in one sentence if it is nothing to train on."""
    if isinstance(source, TrainingData):
        return source
    if isinstance(source, DataLoader):  # its order and batches would not follow from the seed
        source = source.dataset
    if isinstance(source, TensorDataset):
        source = source.tensors
    if isinstance(source, Dataset):
        if 4 * int(np.prod(source.inputs.shape)) > MOST_BYTES:
            return _Read(source)
        return InMemory(name, source.tensors(range(len(source))), torch.from_numpy(source.labels.copy()))
    if isinstance(source, tuple | list) and len(source) == 2:
        return InMemory(name, *(_tensor(part) for part in source))
    if isinstance(source, IterableDataset) or not (isinstance(source, Sized) and hasattr(source, "__getitem__")):
        raise InputError(
            f"{name} must be (inputs, labels), a data set, or a data set or loader of torch whose items have numbers, "
            f"got {type(source).__name__}"
        )
    if not len(source):
        raise InputError(f"{name} is empty; give at least one input with its label")
    return _Items(name, source)


def check(name: str, x: Tensor, y: Tensor) -> None:
    """Refuse data without inputs, with another number of labels, or with other numbers than a model is trained on."""
    if len(x) != len(y) or not len(x):
        raise InputError(
            f"{name} must be as many labels as inputs, at least one, got {len(x)} inputs and {len(y)} labels"
        )
    if x.dtype != torch.float32:
        raise InputError(
            f"inputs of {name} must be float32, got {x.dtype}; give x.float(), or x.float() / 255 for images of 8 bits"
        )
    if y.dtype != torch.int64 or y.dim() != 1 or int(y.min()) < 0:
        least = "" if y.dtype.is_complex or y.is_floating_point() else f", the least {int(y.min())}"
        raise InputError(
            f"labels of {name} must be int64 numbers of classes from 0, (N,), got {y.dtype} {tuple(y.shape)}{least}"
        )
    if x.numel() and not bool(torch.stack(x.aminmax()).isfinite().all()):
        raise InputError(f"inputs of {name} must be finite, but there are infinite or nan ones; leave them out")


def check_label(name: str, label: int, classes: int) -> None:
    """Refuse a label that the model has no score for."""
    if label >= classes:
        raise InputError(
            f"{name} has the label {label}, but the model answers the {classes} classes 0 to {classes - 1}; "
            "give it more outputs or leave these inputs out"
        )


def _tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        return part
    array = np.asarray(part)
    if array.dtype.kind in "iu" and array.ndim == 1:
        array = array.astype(np.int64)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return torch.from_numpy(array.copy())
