"""The most confident member decides (Yang et al. 2022; the baseline MME of Liu et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from smoothcert.models.ensembles.base import AGGREGATIONS, Ensemble, Member, ask_all


@AGGREGATIONS.add
class MaxMargin(Ensemble):
    """Per noisy input, the log-probabilities of the member whose two largest probabilities are the furthest apart.

    Of members with the same margin the first one decides.
    """

    name: ClassVar[str] = "max-margin"

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """log softmax(f_m(x)), m = argmax_k (p_k's largest - p_k's second)."""
        scores = ask_all(members, x).log_softmax(2)  # (k, B, C)
        top = scores.exp().topk(2, dim=2).values  # (k, B, 2)
        most = (top[..., 0] - top[..., 1]).argmax(0)  # (B,)
        return scores.gather(0, most.view(1, -1, 1).expand(1, *scores.shape[1:]))[0].float()
