"""The strength of the noise, chosen for each input: what maximises its radius (DDRS, Alfarra et al. 2022).

Another strength is another classifier, so certificates then have the scope "this input's own classifier", or go
through a memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model, device_of
from smoothcert.core.registry import import_all
from smoothcert.engine.classifier import snapshot
from smoothcert.engine.sigma.base import SEARCHES, FindStrength, SigmaSearch
from smoothcert.engine.sigma.bracket import Bracket
from smoothcert.engine.sigma.ddrs import DDRS
from smoothcert.engine.sigma.grid import Grid
from smoothcert.noise import Gaussian, Noise

__all__ = ["DDRS", "SEARCHES", "Bracket", "Grid", "SigmaSearch", "optimize_sigma", "sigma_search"]


def sigma_search(method: str = "bracket", **options: Any) -> SigmaSearch:
    """The search of that name; an option that is None keeps its default, and one that it does not have is refused."""
    kind = SEARCHES.find(method)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - {f.name for f in fields(kind)}:
        raise InputError(f"the search {method} has no {name}; leave it out, or take another search")
    return kind(**given)


def optimize_sigma(
    model: Model,
    x: Tensor,
    *,
    sigma0: float,
    method: str = "bracket",
    steps: int | None = None,
    draws: int | None = None,
    lr: float | None = None,
    span: float | None = None,
    noise: type[Noise] = Gaussian,
    seed: int = 0,
) -> Tensor:
    """The sigma of each input, (B,) in float64, that maximises its radius: x (B, ...) raw inputs.

    Certify with `Smoothed.certify(x, noises=[Gaussian(s) for s in sigmas.tolist()])`; draws that choose are never draws
    that bound, whatever the seed. `Smoothed(..., search=Bracket())` does both.

    Args:
        model: any callable from a float tensor (B, ...) to scores (B, C); "ddrs" needs gradients. A module is run as a
            private copy, in evaluation mode.
        x: the inputs.
        sigma0: where the search starts, and whose answer is kept: the sigma of training; of Uniform the half width.
        method: "bracket" (ours), "ddrs" (the paper's gradient ascent) or "grid" (its baseline).
        steps: strengths that are tried. Default: the method's.
        draws: noisy inputs for each. Default: the method's.
        lr: length of the steps of "ddrs", times the gradient. Default: 1e-4, the paper's.
        span: strengths stay between sigma0 / span and sigma0 * span. Default: 4; of "grid" none, it has (0, 1].
        noise: the kind of noise: Gaussian (l2), Uniform or Laplace (l1).
        seed: of the draws.
    """
    private = snapshot(model, device := device_of(model))
    search = sigma_search(method, steps=steps, draws=draws, lr=lr, span=span)
    start = noise(**{noise.strength_name: sigma0})

    def run_all(works: Sequence[FindStrength]) -> list[float]:
        return [work.search.find(private, work.x, work.noise, work.seed) for work in works]

    found = search.strengths(run_all, private, x.to(device), start, seed=seed)
    return torch.tensor(found, dtype=torch.float64)


import_all(__name__, __path__)
