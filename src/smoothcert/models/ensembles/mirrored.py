"""A classifier that sees images in a mirror: with itself, an ensemble of two that takes no training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.ensembles.base import AGGREGATIONS, Ensemble, Member


@AGGREGATIONS.add
class Mirrored(Ensemble):
    """f(x) = classifier(x with left and right exchanged), for images (B, C, H, W).

    `SoftVoting([f, Mirrored(f)])` averages over both views, as Krizhevsky et al. 2012 did without noise. For a network
    that was trained on flipped images, of things whose mirror image is of the same class; digits and letters are not.
    """

    name: ClassVar[str] = "mirrored"

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__([classifier])

    @classmethod
    def of(cls, members: Sequence[nn.Module], **options: Any) -> Self:
        """Of the one member."""
        if len(members) != 1:
            raise InputError(f"members of {cls.name} must be 1, the classifier, got {len(members)}")
        return cls(*members, **options)

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """Scores (B, C) of noisy images x (B, C, H, W)."""
        if x.dim() != 4:
            raise InputError(f"only images (B, C, H, W) have a mirror image, got inputs of shape {tuple(x.shape)}")
        return members[0](x.flip(-1))
