"""Members in the order of their accuracy under noise: who is asked first (Horvath et al. 2022, section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from smoothcert.models.ensembles.sampling import check_holdout, label_probabilities
from smoothcert.noise import Noise


@dataclass(frozen=True)
class Ranking:
    """Indices of the members, the best first, and the accuracy under noise of each member (in the order given)."""

    order: tuple[int, ...]
    accuracy: tuple[float, ...]


def rank(
    members: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    noise: Noise,
    draws: int = 10,
    seed: int = 0,
    apart_from: Tensor | None = None,
) -> Ranking:
    """Rank members on hold-out inputs x (N, ...) with labels y (N,), each seen under `draws` draws of noise.

    Members that are equally good keep their order. `apart_from` (M, ...) are inputs that must not be among x: those
    that will be certified.
    """
    check_holdout(x, y, apart_from)
    _, right = label_probabilities(members, x, y, noise, draws, seed, "rank")
    accuracy = right.mean(axis=(0, 1))
    order = sorted(range(len(members)), key=lambda k: -accuracy[k])
    return Ranking(tuple(order), tuple(float(value) for value in accuracy))
