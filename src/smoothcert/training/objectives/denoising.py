"""Training of denoisers (Salman et al. 2020): a classifier that knows nothing of noise is kept as it is."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smoothcert.core.errors import InputError
from smoothcert.models import fingerprint
from smoothcert.training.objectives.base import OBJECTIVES, Objective


@OBJECTIVES.add
@dataclass(frozen=True)
class Denoising(Objective):
    """For a model that returns an input without its noise, D. Labels are not used. Works for every noise.

    Without a classifier it is their MSE objective, |D(x + delta) - x|^2 / d. With a classifier F it is their stability
    objective, CE(F(D(x + delta)), argmax F(x)): denoised inputs shall get the answers that F gives to clean ones. F
    stays as it is: it is copied, and the copy is in evaluation mode. They also train by the first and tune by the
    second.
    """

    name: ClassVar[str] = "denoising"
    classifier: nn.Module | None = None

    def __post_init__(self) -> None:
        if self.classifier is None:
            return
        if not isinstance(self.classifier, nn.Module):
            raise InputError(f"classifier of Denoising must be a torch module, got {type(self.classifier).__name__}")
        if not _is_frozen(self.classifier):
            object.__setattr__(self, "classifier", copy.deepcopy(self.classifier).eval().requires_grad_(False))

    @property
    def classifies(self) -> bool:
        """Only together with a classifier."""
        return self.classifier is not None

    def scores(self, model: nn.Module, x: Tensor) -> Tensor:
        """F(D(x))."""
        assert self.classifier is not None, "see `classifies`"
        scores: Tensor = self.classifier(model(x))
        return scores

    def terms(
        self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, strength: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The squared error, or the cross-entropy with the classifier's own answers."""
        noisy = self.noise.draw(x, generator, strength)
        if self.classifier is None:
            return {"squared error": F.mse_loss(model(noisy), x)}
        with torch.no_grad():
            answers = self.classifier(x).argmax(1)
        return {"stability": F.cross_entropy(self.scores(model, noisy), answers)}

    def describe(self) -> dict[str, Any]:
        """The classifier by its fingerprint."""
        return super().describe() | {"classifier": self.classifier and fingerprint(self.classifier)}


def _is_frozen(module: nn.Module) -> bool:
    return not any(part.training for part in module.modules()) and not any(
        parameter.requires_grad for parameter in module.parameters()
    )
