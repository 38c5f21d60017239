"""How a model is trained, apart from what is minimised on which data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from smoothcert.core.errors import InputError
from smoothcert.training.augment import Augment
from smoothcert.training.discard import Discard
from smoothcert.training.ds2 import DS2
from smoothcert.training.schedules import OneCycle, Schedule


@dataclass(frozen=True)
class Settings:
    """The numbers of `train`; see there."""

    epochs: int
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 1e-4
    batch_size: int = 128
    chunk: int | None = None
    schedule: Schedule = field(default_factory=OneCycle)
    augment: Augment = field(default_factory=Augment)
    mixed_precision: bool | None = None
    seed: int = 0
    ds2: DS2 | None = None
    discard: Discard | None = None
    ema: float | None = None

    def __post_init__(self) -> None:
        whole = (self.epochs, self.batch_size, 1 if self.chunk is None else self.chunk)
        if not 0 < self.lr < math.inf or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in whole):
            raise InputError(
                "epochs, batch_size, chunk (whole numbers) and lr must be positive and finite, "
                f"got {self.epochs}, {self.batch_size}, {self.chunk} and {self.lr}"
            )
        if not 0 <= self.momentum < 1 or not 0 <= self.weight_decay < math.inf:
            raise InputError(
                f"momentum must lie in [0, 1) and weight_decay be finite and at least 0, got {self.momentum} and "
                f"{self.weight_decay}"
            )
        if not isinstance(self.schedule, Schedule):
            raise InputError(
                f"schedule must be a Schedule, such as Cosine() of smoothcert.training, got {self.schedule!r}"
            )
        if self.nesterov and not self.momentum:
            raise InputError("nesterov needs a momentum above 0, got 0; set nesterov to false")
        if self.ema is not None and not (isinstance(self.ema, float) and 0 < self.ema < 1):
            raise InputError(f"ema must lie in (0, 1), as 0.999 does, got {self.ema}")
        if self.mixed_precision not in (None, True, False):
            raise InputError(f"mixed_precision must be true or false, got {self.mixed_precision!r}")
        for name, kind, late in (("ds2", DS2, self.ds2), ("discard", Discard, self.discard)):
            if late is not None and not isinstance(late, kind):
                called = kind.__name__
                raise InputError(
                    f"{name} must be a {called} of smoothcert.training, as {called}(start=10), got {late!r}"
                )
            if late is not None and late.start >= self.epochs:
                raise InputError(
                    f"{name} would start after {late.start} epochs, and there are {self.epochs}; "
                    f"lower the start of {name}"
                )

    def mixed_on(self, device: torch.device) -> bool:
        """Whether matrix products and convolutions are in bfloat16 there."""
        if self.mixed_precision is None and device.type == "cuda":
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
        return bool(self.mixed_precision)

    @property
    def rows(self) -> int:
        """Inputs of one chunk."""
        return min(self.chunk or self.batch_size, self.batch_size)

    def describe(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        values = asdict(self) | {"schedule": self.schedule.describe(), "augment": self.augment.describe()}
        return {
            name: value
            for name, value in values.items()
            if value is not None or name not in ("mixed_precision", "ds2", "discard", "ema")
        }
