"""Networks that were not built here: what identifies them, and the kind of number that they take."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from smoothcert.core.model import Model


class Foreign(nn.Module):
    """A network from somebody's file, as a module that takes float32 inputs (B, ...) and answers scores (B, C).

    Its attributes may be objects that nobody can look into, so it says itself what identifies it. It is identified by
    the bytes of its file, and by its weights as they are now: changing one in place gives another fingerprint.

    Args:
        takes: the kind of number of its inputs: float32 pixels are rounded to it, or widened, before anything else.
        batch: the only number of rows that it takes at once; None: any. Others are cut and filled up.
    """

    has_gradients: ClassVar[bool] = True
    precision: str | None = None  # what it computes with, where its parameters do not tell

    def __init__(self, *, takes: torch.dtype = torch.float32, batch: int | None = None) -> None:
        super().__init__()
        self.takes, self.batch = takes, batch

    @abstractmethod
    def identity(self) -> Any:
        """Values that tell this function from every other one of its class."""

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Scores (B, C) of inputs (B, ...) of the kind that it takes, as many as it takes."""

    def forward(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...)."""
        x = x.to(self.takes)
        if self.batch is None:
            return self.scores(x)
        parts = []
        for part in torch.split(x, self.batch):
            missing = self.batch - len(part)
            filled = torch.cat([part, part[:1].expand(missing, *part.shape[1:])]) if missing else part
            parts.append(self.scores(filled)[: len(part)])
        return torch.cat(parts)


class OwnPrecision(nn.Module):
    """A module of half or double precision, for inputs in float32: they become numbers of its own kind first.

    What comes out is in its precision, too. The rounding of an input is part of the classifier that is certified.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """Scores (B, C) of x (B, ...)."""
        scores: Tensor = self.module(x.to(_precision(self.module) or x.dtype))
        return scores


M = TypeVar("M", bound=Model)


def in_own_precision(model: M) -> M | OwnPrecision:
    """A module whose weights are all half or all double as `OwnPrecision`; every other model as it is."""
    if not isinstance(model, nn.Module) or isinstance(model, OwnPrecision | Foreign):
        return model
    return model if _precision(model) in (None, torch.float32) else OwnPrecision(model)


def has_gradients(model: Model) -> bool:
    """Whether gradients go through a model: not through a function, nor through a network that another runtime runs."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    return isinstance(model, nn.Module) and all(not isinstance(part, Foreign) or part.has_gradients for part in parts)


def precision_of(module: nn.Module) -> str:
    """The kinds of number that a module computes with, as in `float32`; empty if it has no weights."""
    kinds = {str(tensor.dtype).removeprefix("torch.") for tensor in module.parameters()}
    told = (getattr(part, "precision", None) for part in module.modules() if isinstance(part, Foreign))
    return ",".join(sorted(kinds | {one for one in told if one}))


def _precision(module: nn.Module) -> torch.dtype | None:
    """The one kind of number that all weights have; None if there are several, or none."""
    tensors = (*module.parameters(), *module.buffers())
    kinds = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return kinds.pop() if len(kinds) == 1 else None
