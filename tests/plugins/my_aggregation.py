"""The median of the members' probabilities: one member that is far off does not move it."""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

import smoothcert as sc
from smoothcert.models.ensembles import Ensemble, Member, ask_all


@sc.register
class MedianVoting(Ensemble):
    """Per class, the median over the members of log softmax(f_k(x)); of two in the middle, the lower one."""

    name: ClassVar[str] = "median-voting"

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """median_k log softmax(f_k(x))."""
        return ask_all(members, x).log_softmax(2).median(dim=0).values.float()  # (k, B, C) -> (B, C)
