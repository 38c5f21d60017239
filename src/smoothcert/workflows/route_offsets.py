"""How readily a trained router chooses each strength: offsets of its scores, settled on inputs that trained nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.noise import Noise
from smoothcert.workflows.route_labels import Radii, vote_radii

STEPS = 64  # of an offset between "never this strength" and "always"
SWEEPS = 2  # over all strengths


@dataclass(frozen=True)
class Offsets:
    """What is added to a router's scores, and what it is worth on the inputs that it was chosen on."""

    values: tuple[float, ...]  # (K,)
    routed: float  # mean radius of the routed classifier
    single: float  # and of the best strength for all

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Offsets:
        """What `dataclasses.asdict` wrote down."""
        return cls(tuple(fields["values"]), fields["routed"], fields["single"])


def settle_offsets(scores: Tensor, radii: Radii, noise: Noise) -> Offsets:
    """The offsets with the largest mean radius of the routed classifier: the smaller of the router's and the member's.

    A router learns which strength suits an input, and not what it costs where its own radius is the smaller one. With
    an offset it leaves the strength that is best for all only where it is sure enough; one extreme of it is that
    strength for all, so on these inputs routing is worth no less.

    Args:
        scores: the router's, of noisy copies of N inputs, (N, m, K).
        radii: of these inputs for their right classes, by each member, (K, N); negative where it is wrong.
        noise: the router's.
    """
    count = scores.shape[2]
    worth = np.maximum(radii, 0)
    span = 1.0 + 2 * float(scores.abs().max())  # with such an offset every draw chooses that strength
    always = [[span if k == chosen else 0.0 for k in range(count)] for chosen in range(count)]
    singles = [_routed(scores, offsets, worth, noise) for offsets in always]
    best = max(range(count), key=lambda k: singles[k])
    values, routed = [0.0] * count, _routed(scores, [0.0] * count, worth, noise)
    for _ in range(SWEEPS):
        for number in range(count):
            for offset in torch.linspace(-span, span, 2 * STEPS + 1).tolist():
                tried = [offset if k == number else value for k, value in enumerate(values)]
                if (found := _routed(scores, tried, worth, noise)) > routed:
                    values, routed = tried, found
    if singles[best] >= routed:
        values, routed = always[best], singles[best]
    return Offsets(tuple(values), routed, singles[best])


def _routed(scores: Tensor, offsets: list[float], worth: Radii, noise: Noise) -> float:
    """Mean radius of the routed classifier, where the router's scores are shifted by these."""
    shifted = scores + torch.tensor(offsets, dtype=scores.dtype)
    votes = nn.functional.one_hot(shifted.argmax(dim=2), shifted.shape[2]).sum(dim=1)  # (N, K)
    chosen = votes.argmax(dim=1)
    held = np.maximum(vote_radii(shifted, chosen, noise), 0)  # (N,)
    return float(np.minimum(held, worth[chosen.numpy(), np.arange(len(chosen))]).mean())


@torch.no_grad()
def shift_scores(model: nn.Module, offsets: Offsets) -> None:
    """Add the offsets to the scores of a network, in the last of its layers, which must be linear."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers or layers[-1].out_features != len(offsets.values) or layers[-1].bias is None:
        raise InputError("a router must end in a linear layer with a bias; take another network for it")
    layers[-1].bias.add_(torch.tensor(offsets.values).to(layers[-1].bias))
