"""Ensemble weights of least variance (EsbRS, Liu et al. 2023, section 3.2 and algorithm 2), for any number of members.

The paper bounds p_A from below by 1 - sum_i Var(z_i)/e_i^2 (Chebyshev), z_i = sum_l w_l z_i^l the margin of the top
class over class i and e_i the least of the members' mean margins, and minimises sum_i a_i Var(z_i), a_i = e_i^-2.

What differs from the paper, and why:

- With c = 2 Cov, b w^2 + c w (1-w) + d (1-w)^2 = A w^2 + B w + d has A = b - c + d and B = c - 2d; the paper has
  A = b + c + d and B = -(c + 2d).
- It calls k > 2 "non-convex, intractable". The matrix is a sum of covariance matrices, so w'Qw is convex for any k.
- The sum is over classes other than the top one: the margin of the top class over itself is zero.
- The top class is the predicted one; the label is not known where weights are needed.
- A mean margin that is not positive makes a_i meaningless: margins are floored at FLOOR, and the result says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert.core.errors import InputError
from smoothcert.core.model import device_of, evaluating
from smoothcert.core.randomness import generator
from smoothcert.models.ensembles.sampling import check_holdout, noisy
from smoothcert.models.ensembles.solvers import Array, minimum_variance
from smoothcert.models.ensembles.sween import Weights, collapse
from smoothcert.noise import Noise

FLOOR = 0.05
"""The least mean margin (of probabilities) that is believed."""

INPUTS = 32  # at once, so that memory does not grow with their number


@dataclass(frozen=True)
class Estimation:
    """How variances are estimated: the settings of algorithm 2.

    Args:
        draws: n, noisy copies of each input.
        copies: m, perturbed copies of each member, which stand for other training seeds.
        share: t, the probability that a parameter is perturbed.
        spread: standard deviation of the perturbation.
    """

    draws: int = 10
    copies: int = 10
    share: float = 0.3
    spread: float = 0.01

    def __post_init__(self) -> None:
        if self.draws < 1 or self.copies < 1 or self.draws * self.copies < 2:
            raise InputError(f"draws and copies must be at least 1 and not both 1, got {self.draws} and {self.copies}")
        if not 0 <= self.share <= 1 or self.spread < 0:
            raise InputError(f"share must be in [0, 1] and spread not negative, got {self.share} and {self.spread}")


PAPER = Estimation()


def minimum_variance_weights(
    members: Sequence[nn.Module],
    x: Tensor,
    *,
    noise: Noise,
    estimation: Estimation = PAPER,
    seed: int = 0,
    apart_from: Tensor | None = None,
) -> Weights:
    """Weights for `SoftmaxVoting`, the same at every input: the mean of the objective over hold-out inputs x (N, ...).

    One classifier for all inputs, so certificates need no memory. Labels are not used.

    Args:
        members: the classifiers.
        x: hold-out inputs.
        noise: what is added to inputs.
        estimation: how variances are estimated.
        seed: of all draws.
        apart_from: inputs (M, ...) that must not be among x: those that will be certified.
    """
    check_holdout(x, None, apart_from)
    matrices, floored = _matrices(members, x, noise, estimation, seed)
    found = _solved(matrices.mean(axis=0), float(floored.mean()))
    return replace(found, notes=found.notes + collapse(found.weights))


def minimum_variance_weights_per_input(
    members: Sequence[nn.Module],
    x: Tensor,
    *,
    noise: Noise,
    estimation: Estimation = PAPER,
    seed: int = 0,
) -> list[Weights]:
    """The paper's weights, of each input's own. Arguments as of `minimum_variance_weights`.

    They make another classifier at every input: a certificate of it claims nothing about how a neighbour is answered,
    whose weights are others, unless answers go through a memory of certified regions.
    """
    matrices, floored = _matrices(members, x, noise, estimation, seed)
    return [_solved(matrix, float(share_of)) for matrix, share_of in zip(matrices, floored, strict=True)]


@contextmanager
def perturbed(model: nn.Module, share: float, spread: float, stream: torch.Generator) -> Iterator[None]:
    """The model with N(0, spread^2) added to each parameter with probability `share`; afterwards as before, bit by bit.

    Also after an exception. In place, so that there is one copy of one member at a time.
    """
    before = [(parameter, parameter.detach().clone()) for parameter in model.parameters()]
    try:
        with torch.no_grad():
            for parameter, value in before:
                chosen = torch.rand(value.shape, generator=stream) < share
                change = torch.randn(value.shape, generator=stream) * chosen * spread
                parameter.add_(change.to(parameter))
        yield
    finally:
        with torch.no_grad():
            for parameter, value in before:
                parameter.copy_(value)


def objective_matrix(z: Array) -> tuple[Array, float]:
    """Q (k, k) = sum_i a_i Cov_i of margins z (k, draws, classes - 1) paired by draw; share of margins below FLOOR."""
    means = z.mean(axis=1)  # (k, C - 1)
    e = means.min(axis=0)
    centred = z - means[:, None, :]
    covariances = np.einsum("ldi,mdi->ilm", centred, centred) / z.shape[1]  # (C - 1, k, k)
    Q: Array = np.einsum("i,ilm->lm", np.maximum(e, FLOOR) ** -2, covariances)
    return Q, float((e < FLOOR).mean())


def _matrices(
    members: Sequence[nn.Module], x: Tensor, noise: Noise, estimation: Estimation, seed: int
) -> tuple[Array, Array]:
    """Q of each input, (N, k, k), and the share of its margins that were floored, (N,)."""
    found = [
        objective_matrix(_margins(one))
        for chunk in torch.split(x.float(), INPUTS)
        for one in _probabilities(members, chunk, noise, estimation, seed)
    ]
    return np.stack([Q for Q, _ in found]), np.array([floored for _, floored in found])


def _probabilities(
    members: Sequence[nn.Module], x: Tensor, noise: Noise, estimation: Estimation, seed: int
) -> Iterator[Array]:
    """Per input, the probabilities (k, copies * draws, C) of all copies of all members under the same noise."""
    out: list[list[Tensor]] = []
    with torch.inference_mode(), evaluating(*members):
        batches = [batch for _, batch in noisy(x, noise, estimation.draws, seed, "minimum variance")]
        for k, member in enumerate(members):
            out.append([])
            for copy in range(estimation.copies):
                stream = generator(seed, "", f"perturb {k}", copy)
                with perturbed(member, estimation.share, estimation.spread, stream):
                    device = device_of(member)
                    scores = torch.cat([member(batch.to(device, copy=True)).double().cpu() for batch in batches])
                out[-1].append(scores.softmax(1).view(len(x), estimation.draws, -1))
    every = torch.stack([torch.stack(one, 1) for one in out], 1)  # (N, k, copies, draws, C)
    for one in every.flatten(2, 3):
        yield one.numpy()


def _margins(p: Array) -> Array:
    """y_top - y_i for the classes i other than the one with the largest mean probability: (k, draws, C - 1)."""
    top = int(p.mean(axis=(0, 1)).argmax())
    return p[:, :, [top]] - np.delete(p, top, axis=2)


def _solved(Q: Array, floored: float) -> Weights:
    w, gap = minimum_variance(Q)
    notes = (f"{floored:.1%} of the mean margins were below {FLOOR} and count as {FLOOR}",) if floored else ()
    return Weights(tuple(float(value) for value in w), "minimum-variance", float(w @ Q @ w), gap, notes)
