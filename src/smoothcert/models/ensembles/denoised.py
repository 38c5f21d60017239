"""Denoised smoothing (Salman et al. 2020): the noise is taken away before a classifier sees the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.ensembles.base import AGGREGATIONS, Aggregation


@AGGREGATIONS.add
class Denoised(Aggregation):
    """f(x) = classifier(denoiser(x)): the classifier may know nothing of noise.

    An ensemble may share one classifier between several denoisers: `SoftVoting([Denoised(d, c) for d in denoisers])`.
    """

    name: ClassVar[str] = "denoised"
    least: ClassVar[int] = 2

    def __init__(self, denoiser: nn.Module, classifier: nn.Module) -> None:
        super().__init__([denoiser, classifier])

    @classmethod
    def of(cls, members: Sequence[nn.Module], **options: Any) -> Self:
        """Of the two members: the denoiser first."""
        if len(members) != 2:
            raise InputError(f"members of {cls.name} must be 2, the denoiser and the classifier, got {len(members)}")
        return cls(*members, **options)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (B, C) of noisy inputs x (B, ...)."""
        denoiser, classifier = self.members
        scores: Tensor = classifier(denoiser(x))
        return scores
