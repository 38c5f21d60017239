"""Where training stands, in one file: what a killed training goes on from.

A safetensors file of the model's tensors, the optimiser's, the moving average of the weights if there is one, and what
is kept of each input (`OfInputs`); with a JSON text: which training it is of, the epoch and the step. Noise, order and
learning rate are functions of (seed, epoch, step), so there is no more to keep. Every byte is under a digest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.files import read_file, write_whole
from smoothcert.models.formats.sealed_tensors import DAMAGE, is_whole, pack, unpack
from smoothcert.training.averaging import MovingAverage
from smoothcert.training.optimizer import restore, tensors_of

_KEY = "smoothcert-training"
_FORMAT = 3
_MODEL, _OPTIMIZER, _AVERAGE = "model/", "optimizer/", "average/"


@dataclass(frozen=True)
class Epoch:
    """What one pass over the data gave."""

    number: int  # from 1
    epochs: int
    loss: float  # mean over the inputs
    terms: dict[str, float] = field(default_factory=dict)  # what the loss is the sum of
    accuracy: float | None = None  # of the base classifier on noisy validation inputs
    lr: float = 0.0  # at its end
    seconds: float = 0.0

    def __str__(self) -> str:
        text = f"epoch {self.number}/{self.epochs}, loss {self.loss:.3f}"
        return text if self.accuracy is None else f"{text}, {100 * self.accuracy:.1f}% right under noise"


@dataclass
class Position:
    """How far a training has come. `sums` has the terms of the steps of this epoch so far, times their inputs."""

    epoch: int = 0  # from 0: the one under way
    step: int = 0  # of this epoch: the next one
    steps: int = 0  # of all epochs, done
    sums: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0  # of this epoch so far
    history: list[Epoch] = field(default_factory=list)

    def progress(self, epochs: int, steps: int) -> tuple[int, int]:
        """Steps done, and in total, if the epochs that are left have so many."""
        return self.steps, self.steps + (epochs - self.epoch) * steps - self.step


def save_state(
    path: Path,
    about: Mapping[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    of_inputs: Mapping[str, Tensor] = MappingProxyType({}),
    average: MovingAverage | None = None,
) -> None:
    """Write the file so that it appears at once and whole: a kill leaves the old one or the new one."""
    tensors = {_MODEL + name: _copy(value) for name, value in model.state_dict().items()}
    tensors |= {_OPTIMIZER + name: _copy(value) for name, value in tensors_of(optimizer, model).items()}
    if average is not None:
        tensors |= {_AVERAGE + name: _copy(value) for name, value in average.tensors.items()}
    tensors |= {name: _copy(value) for name, value in of_inputs.items()}
    write_whole(path, pack(tensors, _KEY, {"format": _FORMAT, "about": dict(about), "position": asdict(position)}))


def load_state(
    path: Path,
    about: Mapping[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    of_inputs: Mapping[str, Tensor] = MappingProxyType({}),
    average: MovingAverage | None = None,
) -> Position | None:
    """Put model, optimiser and what is kept for each input where the file says, or leave them alone if there is none.

    Either all of it is as it was saved (a digest is compared) and of a training with the same `about`, or an
    `InputError` says what to do and nothing is touched.
    """
    if not path.exists():
        return None
    body, tensors = _read(path)
    if body["about"] != json.loads(json.dumps(about)):
        raise InputError(f"{path} is of another training (data, objective or settings differ); keep this one elsewhere")
    state = _below(_MODEL, tensors)
    expected = {name: value.shape for name, value in model.state_dict().items()}
    if {name: value.shape for name, value in state.items()} != expected:
        raise InputError(f"{path} is of another model; keep this training elsewhere")
    model.load_state_dict(state)
    for name, value in of_inputs.items():
        value.copy_(tensors[name])
    restore(optimizer, model, _below(_OPTIMIZER, tensors))
    position = body["position"]
    if average is not None:
        average.load(_below(_AVERAGE, tensors), position["steps"])
    return Position(**position | {"history": [Epoch(**epoch) for epoch in position["history"]]})


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    damaged = f"{path} is damaged and cannot be resumed from; delete it to train from the start"
    try:
        raw = read_file(path)
        tensors, header = unpack(raw, _KEY)
    except (OSError, *DAMAGE) as error:
        raise InputError(damaged) from error
    if header is not None and header.get("format") != _FORMAT:
        raise InputError(
            f"{path} has the state format {header.get('format')!r}, but this version reads {_FORMAT}; "
            "use the version that wrote it"
        )
    if header is None or not is_whole(raw, _KEY):
        raise InputError(damaged)
    return header, tensors


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _copy(value: Tensor) -> Tensor:
    return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
