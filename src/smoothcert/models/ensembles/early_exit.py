"""Adaptive prediction of a weighted ensemble: members are asked until the answer is settled (Liu et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.models.ensembles.base import AGGREGATIONS, Ensemble, Member, ask, simplex


@AGGREGATIONS.add
class EarlyExit(Ensemble):
    """SWEEN's algorithm 1: members are asked in the order of their weights, the heaviest first.

    It stops as soon as

    - the first member's largest probability is above `threshold` (T; 0.999 in the authors' code),
    - after i > 1 members, the weighted mean probability of its top class k is above
      1/2 + z sqrt(sum w^2)/(sum w) sqrt(sum w (p_j[k] - mean[k])^2 / sum w), with z = Phi^-1(1 - a/2),
    - all members were asked; those with weight zero never are.

    It decides for every noisy input by itself. Scores are the logarithm of the mean when it stopped. The paper says
    that this leaves the smoothed classifier the same; it does not: what is certified is the early-exit classifier, so
    predict with it, too.
    """

    name: ClassVar[str] = "early-exit"
    adaptive: ClassVar[bool] = True

    def __init__(
        self,
        members: Sequence[nn.Module],
        weights: Sequence[float] | None = None,
        threshold: float = 0.999,
        a: float = 0.05,
    ) -> None:
        super().__init__(members)
        if not 0 < threshold <= 1:
            raise InputError(f"threshold must be above 0 and at most 1 (never after one member), got {threshold}")
        if not 0 <= a < 1:
            raise InputError(f"a must be from 0 (never before all members) to below 1, got {a}")
        self.weights, self.threshold, self.a = simplex(weights, len(self.members)), float(threshold), float(a)

    def options(self) -> dict[str, Any]:
        """Weights, which sum to one, T and a."""
        return {"weights": list(self.weights), "threshold": self.threshold, "a": self.a}

    def aggregate(self, members: Sequence[Member], x: Tensor) -> Tensor:
        """log of the weighted mean probabilities of the members that were asked."""
        order = [m for m in sorted(range(len(members)), key=lambda m: -self.weights[m]) if self.weights[m] > 0]
        rows = torch.arange(len(x), device=x.device)  # not settled yet
        settled: list[Tensor] = []  # rows, and their means
        means: list[Tensor] = []
        seen: Tensor | None = None  # (i, rows, C)
        for i, index in enumerate(order, start=1):
            p = ask(members[index], x[rows]).softmax(1)[None]
            seen = p if seen is None else torch.cat([seen, p])
            w = seen.new_tensor([self.weights[m] for m in order[:i]])
            mean = (seen * (w / w.sum()).view(-1, 1, 1)).sum(0)  # (rows, C)
            stop = self._stops(seen, mean, w / w.sum()) if i < len(order) else torch.ones_like(rows, dtype=torch.bool)
            settled.append(rows[stop])
            means.append(mean[stop])
            rows, seen = rows[~stop], seen[:, ~stop]
            if not len(rows):
                break
        out = torch.cat(means)[torch.cat(settled).argsort()]  # (B, C), in the order of x
        return out.clamp_min(torch.finfo(out.dtype).tiny).log().float()

    def _stops(self, seen: Tensor, mean: Tensor, w: Tensor) -> Tensor:
        """Which rows are settled, (rows,); the weights w (i,) sum to one."""
        top, k = mean.max(1)
        if len(seen) == 1:
            return top > self.threshold
        z = NormalDist().inv_cdf(1 - self.a / 2) if self.a else math.inf
        at_top = seen.gather(2, k.view(1, -1, 1).expand(len(seen), -1, 1))[..., 0]  # (i, rows)
        spread = (w[:, None] * (at_top - top).square()).sum(0).sqrt()
        return top > 0.5 + z * w.square().sum().sqrt() * spread  # inf * 0 is not a number, and nothing is above it
