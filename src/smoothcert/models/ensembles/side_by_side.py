"""Several classifiers of the same members as one model: every member is asked once, and each classifier answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from smoothcert.models.ensembles.base import Ensemble, Member
from smoothcert.models.foreign import in_own_precision


class SideBySide(Ensemble):
    """The scores of J classifiers, one after another: (B, J * C). It is no classifier, but J of them.

    Classifiers are networks, or ensembles of them. What two of them have in common, the same object, is one member.

    Args:
        classifiers: all answer for the same C classes.
    """

    name: ClassVar[str] = "side-by-side"

    def __init__(self, classifiers: Sequence[nn.Module]) -> None:
        alone = [in_own_precision(one) for one in classifiers]
        asked = {id(member) for one in alone if isinstance(one, Ensemble) for member in one.members}
        # An ensemble that is a member of another one is asked as such.
        whole = [isinstance(one, Ensemble) and id(one) not in asked for one in alone]
        own = [list(cast(Ensemble, one).members) if of else [one] for one, of in zip(alone, whole, strict=True)]
        members = list({id(member): member for some in own for member in some}.values())
        super().__init__(members)
        number = {id(member): place for place, member in enumerate(members)}
        self.classifiers, self.aggregates = nn.ModuleList(alone), tuple(whole)
        self.places = tuple(tuple(number[id(member)] for member in some) for some in own)
        """Of each classifier, which members are its own, in its order."""

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """The scores of all."""
        own = [[members[place] for place in places] for places in self.places]
        return torch.cat([self.scores(number, some, x) for number, some in enumerate(own)], dim=1)

    def scores(self, number: int, members: Sequence[Member], x: Tensor) -> Tensor:
        """The scores (B, C) of one classifier, asking `members`, its own ones."""
        if self.aggregates[number]:
            return cast(Ensemble, self.classifiers[number]).aggregate(members, x)
        return members[0](x.clone())
